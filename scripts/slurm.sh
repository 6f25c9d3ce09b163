#!/usr/bin/env bash
# Prepares a Slurm of one node, this machine, for the tests: bash scripts/slurm.sh [FOLDER]. As root on Debian or Ubuntu it installs slurm-wlm, munge and libpmix-dev if they are missing. It
# starts munged, slurmctld and slurmd with all of their files in FOLDER (target/slurm), and leaves them running. Its last line is the value of SLURM_CONF for srun. If
# it fails, its last line gives the reason, and it exits with 1.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source-path=SCRIPTDIR source=packages.sh
source scripts/packages.sh

folder=$(realpath -m "${1:-${CARGO_TARGET_DIR:-target}/slurm}")
conf=$folder/slurm.conf

cannot() {
  printf '%s\n' "$1"
  exit 1
}

answers() {
  SLURM_CONF=$conf timeout 20 srun --ntasks=1 true >/dev/null 2>&1
}

[ "$(id -u)" = 0 ] || cannot "only root can start a Slurm here; set SLURM_CONF to the configuration of one that runs"
mkdir -p "$folder"
{ command -v slurmctld && command -v munged; } >/dev/null || install "$folder/apt.log" slurm-wlm munge libpmix-dev ||
  cannot "slurm-wlm, munge or libpmix-dev cannot be installed; $folder/apt.log says why"
if [ -f "$conf" ] && answers; then
  printf '%s\n' "$conf"
  exit
fi

node=$(hostname --short) processors=$(nproc)
cat >"$conf" <<END
ClusterName=rapid
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
# Twice as many processors as there are, so that a step of a few ranks starts anywhere.
NodeName=$node NodeAddr=127.0.0.1 CPUs=$processors State=UNKNOWN
PartitionName=all Nodes=$node Default=YES OverSubscribe=FORCE:4 State=UP
END
export SLURM_CONF=$conf
mkdir -p "$folder/state" "$folder/spool" "$folder/munge"
chmod 0755 "$folder" "$folder/munge"
chmod 0700 "$folder/state"
[ -f "$folder/munge/key" ] || head -c 1024 /dev/urandom >"$folder/munge/key"
chmod 0600 "$folder/munge/key"
munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" \
  --seed-file="$folder/munge/seed" </dev/null >/dev/null 2>&1 || cannot "munged does not start; $folder/munge/log says why"
slurmctld -c </dev/null >/dev/null 2>&1 || cannot "slurmctld does not start; $folder/slurmctld.log says why"
slurmd -c </dev/null >/dev/null 2>&1 || cannot "slurmd does not start; $folder/slurmd.log says why"
for _ in $(seq 30); do
  if answers; then
    printf '%s\n' "$conf"
    exit
  fi
  sleep 1
done
cannot "Slurm starts no job here; $folder/slurmctld.log and $folder/slurmd.log say why"
