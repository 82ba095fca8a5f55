#include "postproc/mail/mail_queue.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/json/record.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr const char* kQueueSchema = "reveal.mail/1";
constexpr std::string_view kQueued = "queued-";
constexpr std::string_view kTrying = "trying-";
constexpr std::size_t kMostQueued = 50;
constexpr std::size_t kLargestEntry = 16 << 10;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kFirstPause = 5 * kMinute;
constexpr std::int64_t kLongestTry = 10 * kMinute;

std::string entry_of(std::string_view beginning, const std::string& directory, Audience audience) {
  return fmt::format("{}{}-{}", beginning, text_hash(directory), name_of(audience));
}

}  // namespace

std::string given_up_line(const QueuedMail& mail, std::string_view why) {
  return fmt::format("the mail to the {} about {} is given up after {}: {}", name_of(mail.audience),
                     printable(mail.directory, 300), mail.tries == 1 ? "one try" : fmt::format("{} tries", mail.tries),
                     why);
}

void fields(auto& v, Visited<decltype(v), QueuedMail>& mail) {
  v.schema("schema", kQueueSchema);
  v("directory", mail.directory);
  v("asked", mail.request.asked);
  v("mail_user", mail.request.mail_user);
  v("user", mail.request.user);
  v("array", mail.array);
  v.name("audience", mail.audience, audience_of);
  v("admins_notified", mail.admins_notified);
  v("tries", mail.tries);
  v.time("first_try", mail.first_utc_ns);
  v.time("next_try", mail.next_utc_ns);
}

std::string render_queued_mail(const QueuedMail& mail) {
  return render_record(mail);
}

QueuedMail parse_queued_mail(const std::string& json) {
  return parse_record<QueuedMail>(json, "queued mail");
}

std::int64_t pause_after(int tries) noexcept {
  std::int64_t pause = kFirstPause;
  for (int i = 1; i < tries && pause < kLongestMailPause; ++i) pause *= 2;
  return std::min(pause, kLongestMailPause);
}

std::optional<std::int64_t> next_try(const QueuedMail& mail, std::int64_t now_utc_ns) {
  const std::int64_t next = now_utc_ns + pause_after(mail.tries);
  return next - mail.first_utc_ns > kMailGivesUpAfter ? std::nullopt : std::optional(next);
}

namespace {

std::optional<QueuedMail> queued_mail_in(const std::string& text) {
  try {
    return parse_queued_mail(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> MailQueue::text_of(const std::string& name) const {
  try {
    return read_text_file(folder_.path_of(name), kLargestEntry, FileOf::ours);
  } catch (const Error&) {  // taken meanwhile, a link, or a file server without an answer
    return std::nullopt;
  }
}

std::vector<QueuedMail> MailQueue::waiting() {
  std::vector<QueuedMail> mails;
  for (const std::string& name : folder_.names(kQueued)) {
    const std::optional<std::string> text = text_of(name);
    if (!text || is_of_another_version(*text, kQueueSchema)) continue;
    std::optional<QueuedMail> mail = queued_mail_in(*text);
    if (mail && entry_of(kQueued, mail->directory, mail->audience) == name) {
      mails.push_back(*std::move(mail));
    } else {
      folder_.remove(name);
    }
  }
  std::stable_sort(mails.begin(), mails.end(), [](const QueuedMail& one, const QueuedMail& other) {
    return one.first_utc_ns < other.first_utc_ns;
  });
  return mails;
}

std::vector<std::string> MailQueue::keep(const QueuedMail& mail) {
  std::vector<std::string> gone;
  // First: without room for the new entry, the old one stays.
  publish_file(folder_.path(), entry_of(kQueued, mail.directory, mail.audience), render_queued_mail(mail));
  folder_.remove(entry_of(kTrying, mail.directory, mail.audience));
  std::vector<QueuedMail> before = waiting();
  std::erase_if(before, [&mail](const QueuedMail& other) {
    return other.directory == mail.directory && other.audience == mail.audience;
  });
  for (std::size_t i = 0; i + kMostQueued <= before.size(); ++i) {
    remove(before[i].directory, before[i].audience);
    gone.push_back(given_up_line(before[i], fmt::format("more than {} mails wait", kMostQueued)));
  }
  return gone;
}

void MailQueue::remove(const std::string& directory, Audience audience) noexcept {
  for (const std::string_view beginning : {kQueued, kTrying}) {
    folder_.remove(entry_of(beginning, directory, audience));
  }
}

void MailQueue::withdraw(const std::string& directory, Audience audience) noexcept {
  folder_.remove(entry_of(kTrying, directory, audience));
}

/// recover() judges by this time, also on other nodes.
void MailQueue::set_time(const std::string& name, std::int64_t utc_ns) {
  const timespec time{static_cast<time_t>(utc_ns / kSecond), 0};
  const timespec times[] = {time, time};
  ::utimensat(folder_.descriptor(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

void MailQueue::begin_first_try(const QueuedMail& mail, std::int64_t now_utc_ns) {
  const std::string name = entry_of(kTrying, mail.directory, mail.audience);
  publish_file(folder_.path(), name, render_queued_mail(mail));
  set_time(name, now_utc_ns);
}

bool MailQueue::begin_try(const QueuedMail& mail, std::int64_t now_utc_ns) {
  const std::string from = entry_of(kQueued, mail.directory, mail.audience);
  const std::string to = entry_of(kTrying, mail.directory, mail.audience);
  set_time(from, now_utc_ns);  // before the rename: a try with an old time would be put back at once
  return ::renameat(folder_.descriptor(), from.c_str(), folder_.descriptor(), to.c_str()) == 0;
}

std::vector<std::string> MailQueue::recover(std::int64_t now_utc_ns) {
  std::vector<std::string> lines;
  for (const std::string& name : folder_.names(kTrying)) {
    struct stat status {};
    if (::fstatat(folder_.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const std::int64_t begun = nanoseconds_of(status.st_mtim);
    if (begun > now_utc_ns - kLongestTry) continue;
    const std::optional<std::string> text = text_of(name);
    if (!text || is_of_another_version(*text, kQueueSchema)) continue;
    std::optional<QueuedMail> mail = queued_mail_in(*text);
    if (!mail || entry_of(kTrying, mail->directory, mail->audience) != name) {
      folder_.remove(name);
      continue;
    }
    const std::optional<std::int64_t> next = next_try(*mail, begun);
    if (!next) {
      remove(mail->directory, mail->audience);
      lines.push_back(given_up_line(*mail, "the process that sent it was killed"));
      continue;
    }
    ++mail->tries;
    mail->next_utc_ns = *next;
    try {
      for (std::string& line : keep(*mail)) lines.push_back(std::move(line));
    } catch (const Error& error) {  // the disk is full: it stays a try
      lines.emplace_back(error.what());
    }
  }
  return lines;
}

}  // namespace reveal
