#!/usr/bin/env bash
# reveal on what most clusters run: systemd as init, cgroup version 2 alone, slurmd as a unit. The machines of the other
# tests have neither, so this boots an emulated node: Debian 12 with Slurm and reveal from their packages, one boot of
# qemu without hardware help, scenario.sh as a service in it, power off. Then what the job was given is looked at here.
#
#   slurm_systemd.sh PACKAGES [DIR]        needs root: mmdebstrap builds the image as root, files in it belong to users
#
# Opt-in, neither part of ctest nor of continuous integration: the first run downloads 300 MB of Debian packages by the
# apt sources of this machine, which must be a Debian 12 itself, and takes about half an hour on two cores; a further one
# with the same DIR takes the Debian from there. The guest has 12 GB of memory, of which it uses 4. It listens on no port
# and changes nothing outside DIR (needs 5 GB; a temporary directory, removed at the end, if not given).
#
#   apt-get install qemu-system-x86 mmdebstrap e2fsprogs python3-h5py       # h5py only for the numbers in the trace
#   cmake -S . -B build/package -DCMAKE_INSTALL_PREFIX=/usr -DREVEAL_TESTS=OFF && cmake --build build/package
#   (cd build/package && cpack -G DEB)
#   bash tests/guest/slurm_systemd.sh build/package /var/tmp/guest
#
# Exit status: 0 all checks passed, 1 some failed, 77 something is missing here. DIR/image.console is what the guest said,
# DIR/result what it left: reports, traces, logs, control groups as they were.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest.sh"
boot_limit=3600 # seconds

[ $# -ge 1 ] || { sed -n '6s/^# *//p' "$0" >&2 && exit 2; }
guest_begin "$@"
guest_root systemd systemd-sysv dbus udev linux-image-cloud-amd64 munge slurmctld slurmd slurm-client \
  slurm-wlm-basic-plugins procps

# Counted where it happens: two looks at the processes would miss a collector that lived between them. Outside of this
# wrapper, everything is as the package installed it.
mv "$root/usr/bin/reveal-collect" "$root/usr/bin/reveal-collect.real"
cat >"$root/usr/bin/reveal-collect" <<'CONF'
#!/bin/sh
echo "$*" >>/var/log/reveal-starts
exec /usr/bin/reveal-collect.real "$@"
CONF
chmod 755 "$root/usr/bin/reveal-collect"

# Slurm resolves even 127.0.0.1 only on a host that has an address besides.
install -d "$root/etc/systemd/network"
printf '[NetDev]\nName=dummy0\nKind=dummy\n' >"$root/etc/systemd/network/dummy.netdev"
printf '[Match]\nName=dummy0\n[Network]\nAddress=192.0.2.1/24\n' >"$root/etc/systemd/network/dummy.network"
echo 52657665616c2d67756573742d746573 >"$root/etc/machine-id" # without one, the first boot would set up the system
chroot "$root" useradd -m -u 1500 -s /bin/sh alice
install -d -o 1500 -g 1500 "$root/home/alice/work"

cat >"$root/etc/slurm/slurm.conf" <<'CONF'
ClusterName=emulated
SlurmctldHost=guest(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdDebug=verbose
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
PrologFlags=Contain
JobAcctGatherType=jobacct_gather/cgroup
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
# The emulation is some thirty times slower than a node.
MessageTimeout=60
TCPTimeout=20
SlurmdParameters=config_overrides
NodeName=guest NodeAddr=127.0.0.1 CPUs=3 Sockets=1 CoresPerSocket=3 ThreadsPerCore=1 RealMemory=11000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
cat >"$root/etc/slurm/cgroup.conf" <<'CONF'
CgroupPlugin=cgroup/v2
ConstrainCores=yes
ConstrainRAMSpace=yes
CONF
echo "include /etc/reveal/plugstack.conf" >"$root/etc/slurm/plugstack.conf"
for folder in /var/lib/slurm/slurmctld /var/log/slurm; do chroot "$root" install -d -o slurm -g slurm $folder; done
install -d "$root/var/lib/slurm/slurmd" "$root/etc/systemd/system/slurmd.service.d"
printf '[Service]\nDelegate=yes\n' >"$root/etc/systemd/system/slurmd.service.d/delegate.conf"

install -m 755 "$here/scenario.sh" "$root/usr/local/sbin/scenario"
cat >"$root/etc/systemd/system/scenario.service" <<CONF
[Unit]
After=slurmctld.service slurmd.service munge.service
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/scenario
ExecStopPost=/bin/sync
StandardOutput=append:/result/scenario.txt
StandardError=append:/result/scenario.txt
TimeoutStartSec=$((boot_limit - 240))
[Install]
WantedBy=multi-user.target
CONF
chroot "$root" systemctl --quiet enable systemd-networkd munge slurmctld slurmd scenario
# A login prompt would take the console, timers would download lists of packages.
chroot "$root" systemctl --quiet mask serial-getty@ttyS0 getty@tty1 apt-daily.timer apt-daily-upgrade.timer \
  fstrim.timer e2scrub_all.timer

status=0
guest_boot $boot_limit "systemd.show_status=false systemd.unified_cgroup_hierarchy=1" -m 12288 \
  -smp 3,sockets=1,cores=3,threads=1 -nic none || status=$?
[ "$(cat "$dir/result/status" 2>/dev/null)" = 0 ] || status=1
[ -s "$dir/result/status" ] || echo "FAILED: the scenario did not come to its end"

say "what is in the report and in the trace"
python3 "$here/judge.py" "$dir/result" || status=1
say "$([ $status = 0 ] && echo "reveal keeps to its life cycle under systemd and cgroup version 2" || echo FAILED)"
[ $status = 0 ]
