#!/usr/bin/env bash
# Installs the system packages that some tests drive (a real Slurm), where this user may; else those tests skip and say why.
set -euo pipefail
packages=(slurmctld slurmd slurm-client munge slurmdbd mariadb-server)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
  echo "no apt-get here: tests that need ${missing[*]} will be skipped"
  exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "not root: tests that need ${missing[*]} will be skipped; to run them: sudo apt-get install -y ${missing[*]}"
  exit 0
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# The tests start their own daemons on their own ports: the packages' services stay off.
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d.neox-train
chmod 755 /usr/sbin/policy-rc.d.neox-train
if [ ! -e /usr/sbin/policy-rc.d ]; then
  mv /usr/sbin/policy-rc.d.neox-train /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
else
  rm -f /usr/sbin/policy-rc.d.neox-train
fi
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
