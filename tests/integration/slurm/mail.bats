#!/usr/bin/env bats
# From `srun --reveal` to the mail in somebody's inbox: sendmail -t is msmtp, the server is aiosmtpd on loopback.
load cases

setup_file() {
  local port
  command -v msmtp >/dev/null && /usr/bin/python3 -c 'import aiosmtpd' 2>/dev/null ||
    { leave_out "msmtp or aiosmtpd is missing" && return; }
  CLUSTER_NODES=2 CLUSTER_HOME=$(getent passwd "$user" | cut -d: -f6) cluster_start y
  port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  /usr/bin/python3 -m aiosmtpd -n -l "127.0.0.1:$port" -c aiosmtpd.handlers.Mailbox "$DIR/inbox" >"$DIR/smtp.log" 2>&1 3>&- &
  echo $! >"$DIR/smtp.pid"
  printf 'defaults\ntls off\nauth off\naccount default\nhost 127.0.0.1\nport %s\nfrom reveal@hpc.example.org\n' "$port" >"$DIR/msmtprc"
  cat >>"$DIR/reveal.conf" <<CONF
[mail]
enabled = true
sendmail = "$(command -v msmtp) -C $DIR/msmtprc -t -i"
domain = "hpc.example.org"
admins = ["ops"]
CONF
}
teardown_file() {
  [ -z "${DIR:-}" ] || { kill "$(cat "$DIR/smtp.pid")" 2>/dev/null || true; }
  cluster_stop
}

# mails JOB RECIPIENT: how many of this job came to this address.
mails() { { grep -lsx "X-RcptTo: $2" "$DIR"/inbox/new/* || true; } | xargs -r grep -lx "X-Reveal-Job: $1" | wc -l; }
has_mail() { [ "$(mails "$1" "$2")" -ge 1 ]; }

@test "a mail that was asked for, and none that was not" {
  situation "mail: healthy job, not asked / mail=yes / --mail-user"
  local quiet asked named
  quiet=$(as_user sbatch --parsable -N2 -o out --reveal --wrap 'sleep 4')
  asked=$(as_user sbatch --parsable -N2 -o out --reveal=mail=yes --wrap 'sleep 4')
  named=$(as_user sbatch --parsable -N1 -o out --mail-user=ada@hpc.example.org --reveal=mail=yes --wrap 'sleep 4')
  batch_unchanged "$quiet" COMPLETED 0:0
  batch_unchanged "$asked" COMPLETED 0:0
  batch_unchanged "$named" COMPLETED 0:0
  for job in "$quiet" "$asked" "$named"; do nothing_left "$job"; done
  until_true 20 has_mail "$asked" "$user@hpc.example.org" || problem "no mail for the one who asked"
  until_true 20 has_mail "$named" ada@hpc.example.org || problem "no mail to --mail-user"
  sleep 1
  [ "$(ls "$DIR/inbox/new" | wc -l)" = 2 ] || problem "other mails came: $(grep -hE '^X-R' "$DIR"/inbox/new/* | xargs)"
  note row_report "yes, and mail to $user and ada"
  verdict
}

@test "one mail for an array" {
  situation "mail: array of 3 tasks"
  local array task id
  array=$(as_user sbatch --parsable --array=0-2 -N1 -w y1 -o out --reveal=mail=yes \
    --wrap 'echo $SLURM_JOB_ID >task.$SLURM_ARRAY_TASK_ID; sleep 4')
  for task in 0 1 2; do
    until_true 30 test -s task.$task
    id=$(cat task.$task)
    batch_unchanged "$id" COMPLETED 0:0
    report "$work/reveal-$id" "$id" y1
    nothing_left "$id"
  done
  sleep 1
  local count
  count=$(grep -lsE "^X-Reveal-Job: ${array}_[0-2]\$|^X-Reveal-Job: ($(cat task.* | paste -sd'|'))\$" "$DIR"/inbox/new/* | wc -l)
  [ "$count" = 1 ] || problem "$count mails: $(grep -hE '^X-R' "$DIR"/inbox/new/* | xargs)"
  verdict
}

@test "the mail about an array comes from its last task" {
  situation "mail: array of 4 tasks on two nodes"
  local array task id states=$DIR/home/.local/state/reveal/mail
  array=$(as_user sbatch --parsable --array=0-3 -N1 -o out --reveal=mail=yes \
    --wrap 'echo $SLURM_JOB_ID >task.$SLURM_ARRAY_TASK_ID; [ $SLURM_ARRAY_TASK_ID != 2 ] || sleep 14; sleep 10')
  for task in 0 1 3; do
    until_true 60 test -s task.$task
    id=$(cat task.$task)
    batch_unchanged "$id" COMPLETED 0:0
    nothing_left "$id"
  done
  three_results() { [ "$(compgen -G "$states/*/task-$array-*" | wc -l)" = 3 ]; }
  until_true 20 three_results || problem "the results of three tasks are not kept"
  ! grep -qs "Array job $array:" "$DIR"/inbox/new/* || problem "a mail came while a task ran"
  id=$(cat task.2)
  batch_unchanged "$id" COMPLETED 0:0
  nothing_left "$id"
  about_all() { grep -qsE "Array job $array: (4 tasks without|[1-4] tasks? with) a finding" "$DIR"/inbox/new/*; }
  until_true 40 about_all || problem "no mail about all tasks: $(grep -h '^Subject' "$DIR"/inbox/new/* | xargs)"
  [ "$(grep -lsE "^X-Reveal-Job: ($(cat task.* | paste -sd'|'))\$" "$DIR"/inbox/new/* | wc -l)" = 1 ] || problem "more than one mail"
  ! compgen -G "$states/*/task-$array-*" >/dev/null || problem "results of tasks are left over"
  verdict
}

@test "the site's mailer sends the mail of a job" {
  situation "mail: [mail] mailer_spool, mail=yes"
  local id
  install -d -o nobody -g nogroup -m 3733 "$DIR/mailer"
  sed -i "/^\[mail\]/a mailer_spool = \"$DIR/mailer\"" "$DIR/reveal.conf"
  id=$(as_user sbatch --parsable -N1 -o out --reveal=mail=yes --wrap 'sleep 4')
  batch_unchanged "$id" COMPLETED 0:0
  nothing_left "$id"
  mail_is_left() { compgen -G "$DIR/mailer/mail-*" >/dev/null; }
  until_true 20 mail_is_left || problem "the job left nothing for the mailer"
  ! has_mail "$id" "$user@hpc.example.org" || problem "the job sent a mail itself"
  setpriv --reuid nobody --regid nogroup --clear-groups "$(reveal_program)" mailer --config "$DIR/reveal.conf" ||
    problem "reveal mailer: status $?"
  has_mail "$id" "$user@hpc.example.org" || problem "the mailer sent nothing"
  sed -i '/^mailer_spool/d' "$DIR/reveal.conf"
  verdict
}
