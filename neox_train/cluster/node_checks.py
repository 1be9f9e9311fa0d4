"""What a node must be for the profile: its facts judged, by doctor for the table and by a training before it starts."""

from __future__ import annotations

from typing import Any

from neox_train.cluster.check import Check, fail, passed, skip, warn
from neox_train.config.cluster import Cluster

_GIB = 2**30
_MEMORY_TOLERANCE = 0.02
_FREE_SHARE = 0.9
_SAME = ("neox-train", "submitit")
"""Packages whose version decides whether a job understands what was submitted."""


def check_node(facts: dict[str, Any], cluster: Cluster) -> list[Check]:
    """Checks of one process's facts against the profile."""
    checks = [
        _check_cores(facts, cluster),
        _check_address(facts, cluster),
        _check_results(facts),
        _check_scratch(facts, cluster),
    ]
    return [*checks, _check_torch(facts, cluster), *_check_gpus(facts, cluster)]


def check_versions(here: dict[str, Any], there: dict[str, Any], cluster: Cluster) -> list[Check]:
    """Login side against compute side: an unlike interpreter or package shows before a job is queued for hours."""
    found, checks = f"{there['python']} at {there['executable']}", []
    if _minor(here["python"]) == _minor(there["python"]):
        checks.append(passed("Python on the node", found))
    else:
        remedy = "set python: in cluster.yaml, or start Snakemake with the nodes' interpreter"
        # An interpreter that the profile names may be another version: jobs take importable code and strings only.
        verdict = warn if cluster.python else fail
        checks.append(verdict("Python on the node", f"{found}, here {here['python']}", remedy))
    if here["code"] != there["code"]:
        remedy = "install this checkout there (pip install -e .): the job would run other code than was submitted"
        checks.append(fail("code on the node", "another neox-train is installed", remedy))
    different = {
        name: f"{name} {there['packages'].get(name, 'missing')}, here {version}"
        for name, version in here["packages"].items()
        if there["packages"].get(name) != version and not name.startswith("snakemake")
    }
    fatal = [text for name, text in different.items() if name in _SAME]
    if fatal:
        checks.append(fail("packages on the node", "; ".join(fatal), "install the same versions on both sides"))
    elif different:
        remedy = "fine when the node's torch is the GPU build; otherwise install the same versions"
        checks.append(warn("packages on the node", "; ".join(different.values()), remedy))
    else:
        checks.append(passed("packages on the node", f"the same {len(here['packages'])} versions"))
    return checks


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _check_cores(facts: dict[str, Any], cluster: Cluster) -> Check:
    found, wanted = facts["cpus"], cluster.cpus_per_process
    if found < wanted:
        remedy = "the step did not take --cpus-per-task; ask the site for its binding, or lower cpus_per_process"
        return fail("cores of a process", f"{found}, wanted {wanted}", remedy)
    return passed("cores of a process", f"{found}, wanted {wanted}")


def _check_address(facts: dict[str, Any], cluster: Cluster) -> Check:
    address = facts["address"]
    if cluster.executor == "local":
        return passed("address", "one machine, ranks meet at 127.0.0.1")
    if "resolve" in address:
        return warn("address", f"{facts['host']} {address}", "ranks meet at the address Slurm knows of the first node")
    if address.startswith("127."):
        return warn(
            "address",
            f"{facts['host']} is {address} to itself",
            "fine on one node; between nodes set network.interface",
        )
    return passed("address", f"{facts['host']} is {address}")


def _check_results(facts: dict[str, Any]) -> Check:
    folder = facts["results"]
    if "error" in folder:
        remedy = "set results: to a folder on a file system that the nodes share"
        return fail("results on the node", f"{folder['path']}: {folder['error']}", remedy)
    return passed("results on the node", f"{folder['path']} is writable")


def _check_scratch(facts: dict[str, Any], cluster: Cluster) -> Check:
    folder, floor = facts["scratch"], cluster.preflight.free_scratch_gib
    if "error" in folder:
        return fail("node-local scratch", f"{folder['path']}: {folder['error']}", "set node_local_scratch:")
    free = folder["free_bytes"] / _GIB
    if free < floor:
        found = f"{folder['path']} has {free:.1f} GiB free, floor {floor:g}"
        return fail("node-local scratch", found, "exclude the node (exclude:), or lower preflight.free_scratch_gib")
    return passed("node-local scratch", f"{folder['path']}, {free:.0f} GiB free")


def _check_torch(facts: dict[str, Any], cluster: Cluster) -> Check:
    torch = facts["torch"]
    if "version" not in torch:
        return fail(
            "torch on the node", torch["error"], "install torch in the nodes' Python, or mend setup: and python:"
        )
    driver = next((gpu["driver"] for gpu in facts["driver_gpus"]), None)
    built = f"{torch['version']}, CUDA {torch['cuda']}" + (f", driver {driver}" if driver else "")
    if cluster.device != "cuda":
        return passed("torch on the node", torch["version"])
    if torch["cuda"] is None:
        return fail("torch on the node", f"{torch['version']} is built without CUDA", "install the CUDA build of torch")
    if "error" in torch or not torch.get("available"):
        remedy = "the driver is older than torch's CUDA: install a torch built for it, or another container"
        if driver is None:
            remedy = "the job got no GPU (nvidia-smi shows none): compare gres_style, and --nv of a container"
        return fail("torch on the node", f"{built}: no usable GPU {torch.get('error', '')}".strip(), remedy)
    return passed("torch on the node", built)


def _check_gpus(facts: dict[str, Any], cluster: Cluster) -> list[Check]:
    devices = facts["torch"].get("devices", [])
    if cluster.device != "cuda" or cluster.gpu is None or not devices:
        return []
    wanted, checks = cluster.gpu, []
    count = facts["torch"]["device_count"]
    if count < cluster.processes_per_node:
        found = f"{count} visible, {cluster.processes_per_node} wanted"
        checks.append(fail("GPUs of the node", found, "request whole nodes; never --gpus-per-task or --gpu-bind"))
    names = sorted({device["name"] for device in devices})
    capability = min(device["capability"] for device in devices)
    if wanted.model and any(wanted.model.lower() not in name.lower() for name in names):
        found = f"{', '.join(names)}, wanted {wanted.model}"
        checks.append(fail("GPU model", found, "set a constraint or gres_type, or mend the gpu: block"))
    elif capability < wanted.compute_capability:
        found = f"compute capability {capability}, wanted {wanted.compute_capability}"
        checks.append(fail("GPU model", found, "mend the gpu: block; FP8 and bfloat16 are allowed by it"))
    else:
        checks.append(passed("GPU model", f"{count} x {', '.join(names)}"))
    return [*checks, _check_memory(devices, wanted.memory_gib)]


def _check_memory(devices: list[dict[str, Any]], wanted_gib: float) -> Check:
    least = min(device["memory_gib"] for device in devices)
    if least < wanted_gib * (1 - _MEMORY_TOLERANCE):
        return fail("GPU memory", f"{least:g} GiB, the profile says {wanted_gib:g}", f"set gpu.memory_gib: {least:g}")
    free = min(device["free_gib"] / device["memory_gib"] for device in devices)
    if free < _FREE_SHARE:
        found = f"only {free:.0%} of {least:g} GiB is free"
        return fail("GPU memory", found, "another process holds the GPU: exclude the node, and tell the site")
    return passed("GPU memory", f"{least:g} GiB, {free:.0%} free")


def check_bandwidth(measured: dict[str, Any], cluster: Cluster) -> Check:
    """An all-reduce over all ranks (``all_reduce.measure``) against the profile's floor."""
    name, floor = "all-reduce", cluster.preflight.all_reduce_gb_per_second
    if "error" in measured:
        remedy = "set network.interface to the network the nodes share (ip -br addr on a node)"
        return fail(name, str(measured["error"]), remedy)
    if measured["ranks"] == 1:
        return skip(name, "one rank")
    rate = measured["gb_per_second"]
    found = f"{rate:.2f} GB/s bus bandwidth, {measured['backend']}, {measured['ranks']} ranks"
    if floor is None:
        return passed(name, f"{found}, no floor set (80% is {0.8 * rate:.2g})")
    if rate < floor:
        return fail(
            name, f"{found}, floor {floor:g}", "a slow link or the wrong network: see NCCL_DEBUG=INFO; exclude the node"
        )
    return passed(name, f"{found}, floor {floor:g}")
