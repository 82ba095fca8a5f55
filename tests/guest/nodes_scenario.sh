#!/usr/bin/env bash
# The only program of each guest of nodes.sh, called n1, n2 and n3: runs as its first process. RESERVED on the kernel's
# command line says which nodes booted with a page of 1 GiB: "one", n2; "all".
mine='mem.hugepages_inconsistent'
. /usr/local/sbin/first_process.sh
export REVEAL_INTERVAL=1s # three emulated nodes at once, each with one cpu

jobs=/jobs
number=${NODE#n}
card=$(ls /sys/class/net | grep -v lo | head -n 1)
ip link set lo up && ip addr add 10.99.0.$number/24 dev $card && ip link set $card up
mkdir $jobs
if [ $NODE = n1 ]; then # version 4 needs no port mapper
  mkdir /result/jobs && mount --bind /result/jobs $jobs
  modprobe nfsd && mount -t nfsd nfsd /proc/fs/nfsd
  exportfs -o rw,fsid=0,no_root_squash,no_subtree_check 10.99.0.0/24:/result/jobs
  rpc.mountd --no-nfs-version 3 && rpc.nfsd --no-nfs-version 3 --grace-time 10 4 && echo Y >/proc/fs/nfsd/v4_end_grace
else
  for _ in {1..60}; do
    mount -t nfs4 -o vers=4.2,hard,lookupcache=none,actimeo=1 10.99.0.1:/ $jobs && break
    sleep 2
  done
fi

meet() { # meet WHERE: waits until the three nodes are there
  touch $jobs/.$1.$NODE
  for _ in {1..600}; do
    [ -e $jobs/.$1.n1 ] && [ -e $jobs/.$1.n2 ] && [ -e $jobs/.$1.n3 ] && return
    sleep 0.5
  done
  say "at $1, only these nodes came: $(cd $jobs && echo .$1.*)"
  exit 1
}
reserve() { # reserve KIB N1 N2 N3: as many pages of this size on each node
  local wanted=("$@") files=/sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages
  echo ${wanted[$number]} >$files
  [ "$(cat $files)" = ${wanted[$number]} ] || say "$NODE has $(cat $files) pages of $1 KiB instead of ${wanted[$number]}"
}
# One rank on each node; a sentence of the report must have the words, a pattern.
job_of_nodes() { # job_of_nodes NAME RULE|- [WORDS]
  chosen $1 || return 0
  meet $1-begin
  say "$1: $(cd /sys/kernel/mm/hugepages && grep . */nr_hugepages | xargs)"
  OMPI_MCA_ess_base_jobid=$1 OMPI_COMM_WORLD_RANK=$((number - 1)) OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
    record $1 stress-ng --cpu 1 --cpu-load 5 --cpu-method int64 --timeout 45 --quiet
  meet $1-end
  [ $NODE = n1 ] || return 0
  judge $1 $2
  expected "$1: three traces" [ "$(echo $jobs/$1/n?.h5)" = "$jobs/$1/n1.h5 $jobs/$1/n2.h5 $jobs/$1/n3.h5" ]
  [ -z "${3:-}" ] || expected "$1: $3" grep -qE "\"sentence\": *\"[^\"]*$3" $jobs/$1/report.json
}

rule=mem.hugepages_inconsistent gib=1048576 mib=2048
if [ $RESERVED = one ]; then
  job_of_nodes gib-one $rule "n2 reserves 1 huge page of 1 GiB \(1 GiB\), and the other nodes reserve none"
  reserve $gib 0 0 0
  job_of_nodes gib-none -
  reserve $mib 0 120 0
  job_of_nodes mib-one $rule "n2 reserves 120 huge pages of 2 MiB \(240 MiB\), and the other nodes reserve none"
  reserve $mib 120 120 120
  job_of_nodes mib-all -
else
  job_of_nodes gib-all -
  reserve $gib 1 1 0
  job_of_nodes gib-missing $rule "n3 reserves no huge pages of 1 GiB, and the other nodes reserve 1"
fi
meet end
case $NODE in
  n1) sleep 5 ;; # the server goes last
  *) umount $jobs ;;
esac
