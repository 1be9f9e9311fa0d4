"""The tokenize stage against its peers: ``python benchmarks/tokenize.py [options]`` runs tokenizing.py beside it.

A script's own folder comes first where modules are looked for, so every script in this folder, and this one too, would
get this file for the standard library's ``tokenize``: under that name it hands over the real one.
"""

import os
import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

if __name__ == "tokenize":
    spec = spec_from_file_location(__name__, Path(os.__file__).with_name("tokenize.py"))
    assert spec is not None and spec.loader is not None
    sys.modules[__name__] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[__name__])
elif __name__ == "__main__":
    runpy.run_path(str(Path(__file__).with_name("tokenizing.py")), run_name=__name__)
