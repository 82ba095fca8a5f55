#!/usr/bin/env bats
# Sites and jobs that end with pkill -u: also what reveal runs as the user is killed.
load cases
user=news

setup_file() {
  ! pgrep -u "$user" >/dev/null || { leave_out "somebody runs as $user on this machine" && return; }
  CLUSTER_NODES=2 CLUSTER_EXTRA="Epilog=/bin/true" cluster_start u
  # After the start, because the path is in the directory that it makes.
  printf '#!/bin/sh\npkill -KILL -u "$SLURM_JOB_UID"\nexit 0\n' >"$DIR/epilog"
  chmod 755 "$DIR/epilog"
  sed -i "s|^Epilog=.*|Epilog=$DIR/epilog|" "$SLURM_CONF"
  scontrol reconfigure
}
teardown_file() { cluster_stop; }

@test "the site's epilog kills the user's processes" {
  situation "site epilog: pkill -KILL -u USER"
  local id
  id=$(as_user sbatch --parsable -N2 -o out --reveal --wrap 'srun -N2 sleep 4; echo done; exit 2')
  batch_unchanged "$id" FAILED 2:0
  says out done
  started "$id" u1 u2
  # The kill comes after reveal's own epilog, so into the delivery: what was not delivered waits in the spool.
  delivered_or_kept "$id" "$work/reveal-$id"
  verdict
}

@test "the job itself kills all processes of its user" {
  situation "job ends with pkill -KILL -u USER"
  local id
  id=$(as_user sbatch --parsable -N1 -w u1 -o out --reveal --wrap 'sleep 4; echo done; pkill -KILL -u $(id -u)')
  batch_unchanged "$id" FAILED 0:9
  says out done
  started "$id" u1
  delivered_or_kept "$id" "$work/reveal-$id"
  verdict
}
