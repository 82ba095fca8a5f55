// Names and addresses of jobs and users, which become headers of a mail.
#include "hdf5schema/basics/error.h"
#include "postproc/deliver/slurm_controller.h"
#include "postproc/deliver/slurm_job.h"
#include "postproc/mail/address.h"
#include "postproc/mail/array_tasks.h"
#include "postproc/mail/mail_queue.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/mail/mailer_state.h"
#include "postproc/mail/message.h"
#include "postproc/mail/site_digest.h"
#include "postproc/mail/spooled_mail.h"
#include "target.h"

namespace reveal::fuzz::mail {
namespace {

void run(std::string_view input) {
  if (is_mail_address(input)) {
    require(input.find_first_of("\r\n \t,<>") == std::string_view::npos, "an address is one word of one line");
    require(input.front() != '-', "an address is no option");
    static_cast<void>(domain_of(input));
  }
  static_cast<void>(is_mail_user(input));
  static_cast<void>(is_mail_domain(input));
  static_cast<void>(qualified(input, "example.org"));
  static_cast<void>(same_domain(input, input));
  static_cast<void>(is_array_id(input));
  const std::string header = header_text(input, 200);
  require(header.find_first_of("\r\n") == std::string::npos, "a header is one line");
  try {
    require(parse_queued_mail(std::string(input)).directory.size() <= input.size(), "a queued mail invents nothing");
  } catch (const Error&) {  // it is none
  }
  try {
    const ArrayTask task = parse_array_task(std::string(input));
    require(is_array_id(task.array), "an array is a number, which is part of a file name");
    require(parse_array_task(render_array_task(task)).task == task.task, "a task stays the same");
  } catch (const Error&) {  // it is none
  }
  try {
    const SpooledMail mail = parse_spooled_mail(std::string(input));
    require(parse_spooled_mail(render_spooled_mail(mail)).report == mail.report, "a spooled mail stays the same");
    static_cast<void>(lines_for_admins(mail.report, {}));
    static_cast<void>(admin_lines(mail.report, {}));
  } catch (const Error&) {  // it is none
  }
  try {
    const std::string state = render_mailer_state(parse_mailer_state(std::string(input)));
    require(render_mailer_state(parse_mailer_state(state)) == state, "the records of the mailer stay the same");
  } catch (const Error&) {  // they are none
  }
  static_cast<void>(parse_unfinished_tasks(input));
  SlurmJob job;
  add_controller_answer(job.names, std::string(input));
  static_cast<void>(render_slurm_job_record(record_of(job)));
}

const RegisteredTarget kTarget{{"mail", run}};

}  // namespace
}  // namespace reveal::fuzz::mail
