#include "postproc/mail/mail_queue.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/random_hex.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/json/record.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr const char* kQueueSchema = "reveal.mail/1";
constexpr std::string_view kQueued = "queued-";
constexpr std::string_view kTrying = "trying-";
constexpr char kTakenOver = '~';  // before the time and a number, in the name of a try that recover() has taken
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
  // First: without room for the new entry, the old one stays.
  publish_file(folder_.path(), entry_of(kQueued, mail.directory, mail.audience), render_queued_mail(mail));
  remove_try(mail.directory, mail.audience);
  return make_room(mail);
}

std::vector<std::string> MailQueue::make_room(const QueuedMail& mail) {
  std::vector<std::string> gone;
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
  folder_.remove(entry_of(kQueued, directory, audience));
  remove_try(directory, audience);
}

/// Also where another process took it for that of a killed one, and is about to put it back.
void MailQueue::remove_try(const std::string& directory, Audience audience) noexcept {
  const std::string name = entry_of(kTrying, directory, audience);
  folder_.remove(name);
  for (const std::string& taken : folder_.names(name + kTakenOver)) folder_.remove(taken);
  folder_.remove(name);  // it was put back before this process removed the other name
}

void MailQueue::withdraw(const std::string& directory, Audience audience) noexcept {
  remove_try(directory, audience);
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

/// The name that recover() gives a try has the time of this: the time of its file would be the old one until it is set,
/// and another process could take it then.
std::optional<std::int64_t> MailQueue::begun(const std::string& name) const {
  if (const std::size_t mark = name.find(kTakenOver); mark != std::string::npos) {
    const std::string_view rest = std::string_view(name).substr(mark + 1);
    const std::optional<std::int64_t> seconds = parse_int(rest.substr(0, rest.find('-')));
    return seconds ? std::optional(*seconds * kSecond) : std::nullopt;
  }
  struct stat status {};
  if (::fstatat(folder_.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return nanoseconds_of(status.st_mtim);
}

std::string MailQueue::take_over(const std::string& name, std::int64_t begun_utc_ns, std::int64_t now_utc_ns) {
  const std::string number = random_hex(8);
  if (number.empty()) return {};
  const std::size_t mark = name.find(kTakenOver);
  std::string mine = fmt::format("{}{}{}-{}", name.substr(0, mark), kTakenOver, now_utc_ns / kSecond, number);
  const int folder = folder_.descriptor();
  if (::renameat(folder, name.c_str(), folder, mine.c_str()) != 0) return {};
  if (mark != std::string::npos) return mine;  // such a name is used once
  struct stat status {};
  if (::fstatat(folder, mine.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
  if (nanoseconds_of(status.st_mtim) == begun_utc_ns) return mine;
  // Another process recovered it and began it anew meanwhile. It goes back in place of no other.
  if (::linkat(folder, mine.c_str(), folder, name.c_str(), 0) == 0 || errno == EEXIST) folder_.remove(mine);
  return {};
}

std::vector<std::string> MailQueue::recover(std::int64_t now_utc_ns) {
  std::vector<std::string> lines;
  for (const std::string& name : folder_.names(kTrying)) {
    const std::optional<std::int64_t> begin = begun(name);
    if (!begin || *begin > now_utc_ns - kLongestTry) continue;
    const std::optional<std::string> text = text_of(name);
    if (!text || is_of_another_version(*text, kQueueSchema)) continue;
    std::optional<QueuedMail> mail = queued_mail_in(*text);
    if (!mail || entry_of(kTrying, mail->directory, mail->audience) != name.substr(0, name.find(kTakenOver))) {
      folder_.remove(name);
      continue;
    }
    const std::string mine = take_over(name, *begin, now_utc_ns);
    if (mine.empty()) continue;
    const std::optional<std::int64_t> next = next_try(*mail, *begin);
    if (!next) {
      folder_.remove(mine);
      lines.push_back(given_up_line(*mail, "the process that sent it was killed"));
      continue;
    }
    ++mail->tries;
    mail->next_utc_ns = *next;
    try {
      for (std::string& line : put_back(mine, *mail)) lines.push_back(std::move(line));
    } catch (const Error& error) {  // the disk is full: it stays a try
      lines.emplace_back(error.what());
    }
  }
  return lines;
}

/// By a rename, not by keep(): killed between its two steps, a process would leave a mail that waits and is also a try.
std::vector<std::string> MailQueue::put_back(const std::string& mine, const QueuedMail& mail) {
  publish_file(folder_.path(), mine, render_queued_mail(mail));
  const std::string name = entry_of(kQueued, mail.directory, mail.audience);
  if (::renameat(folder_.descriptor(), mine.c_str(), folder_.descriptor(), name.c_str()) != 0) {
    throw system_error(folder_.path_of(name), errno);
  }
  return make_room(mail);
}

}  // namespace reveal
