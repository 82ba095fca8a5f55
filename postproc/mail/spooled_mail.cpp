#include "postproc/mail/spooled_mail.h"

#include "hdf5schema/basics/error.h"
#include "postproc/json/record.h"

namespace reveal {
namespace {

constexpr const char* kSpooledSchema = "reveal.spooled-mail/1";
constexpr int kMostRepeatDays = 365;

/// Tasks as their own records, which have a version of their own.
struct SpooledRecord {
  SpooledMail mail;
  std::vector<std::string> tasks;
};

void fields(auto& v, Visited<decltype(v), SpooledRecord>& record) {
  v.schema("schema", kSpooledSchema);
  v.name("audience", record.mail.audience, audience_of);
  v("asked", record.mail.request.asked);
  v("mail_user", record.mail.request.mail_user);
  v("user", record.mail.request.user);
  v("directory", record.mail.directory);
  v("array", record.mail.array);
  v("admins_notified", record.mail.admins_notified);
  v("repeat_days", record.mail.repeat_days);
  v("tasks", record.tasks);
  v("report", record.mail.report);
}

}  // namespace

std::string render_spooled_mail(const SpooledMail& mail) {
  SpooledRecord record{.mail = mail, .tasks = {}};
  for (const ArrayTask& task : mail.tasks) record.tasks.push_back(render_array_task(task));
  return render_record(record);
}

SpooledMail parse_spooled_mail(const std::string& json) {
  SpooledRecord record = parse_record<SpooledRecord>(json, "spooled mail");
  if (record.mail.repeat_days < 0 || record.mail.repeat_days > kMostRepeatDays) {
    throw Error("spooled mail: \"repeat_days\" is out of range");
  }
  for (const std::string& task : record.tasks) record.mail.tasks.push_back(parse_array_task(task));
  return std::move(record.mail);
}

bool is_spooled_by_another_version(const std::string& json) noexcept {
  return is_of_another_version(json, kSpooledSchema);
}

}  // namespace reveal
