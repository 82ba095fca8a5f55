// One mail: the report as text and as HTML with one picture, the whole report attached. What users typed (names of
// jobs, nodes, tags, paths) reaches headers only through a filter, and MIME only through GMime.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "postproc/mail/array_tasks.h"
#include "postproc/mail/mail_settings.h"
#include "postproc/report/report.h"
#include "postproc/words/remedy_lines.h"

namespace reveal {

enum class Audience : std::uint8_t {
  user,
  admins,
  hardware,  // the administrators, about faults of the nodes' hardware: without anything about the job
};
[[nodiscard]] std::string_view name_of(Audience) noexcept;
[[nodiscard]] std::optional<Audience> audience_of(std::string_view) noexcept;

struct MailContext {
  Audience audience = Audience::user;
  std::vector<std::string> to;   // valid addresses
  std::string host;              // name of this machine, for the sender's and the message's name
  std::string directory;         // where the report lies, as the reader would type it; "" leaves it out
  std::string array;             // array job of which this is the only mail, or ""
  bool admins_notified = false;  // this report goes to the administrators as well
  int repeat_days = 0;           // the same finding of this command is not mailed again for so long; 0: it is
  std::set<std::string> faults;  // keys of hardware faults to tell of; empty: all
  std::vector<ArrayTask> tasks;  // the array's tasks, the worst first, with the report of this one; empty: one job
  std::int64_t now_utc_ns = 0;
};

struct MailMessage {
  std::string subject;  // as the reader sees it
  std::string text;     // the text part
  std::string html;     // the same in HTML; "" for a mail that has none
  std::string mime;     // all of it, lines ending in '\n', as sendmail -t takes it
};

/// A fault of a node's hardware that administrators are told of.
struct HardwareFault {
  std::string key;  // rule, node and device
  std::string node;
  const Finding* finding = nullptr;  // in the report
};
/// Findings that concern the administrators (recipients.h) and whose remedy is to drain the node, for each node; the
/// worst first, at most fifty.
[[nodiscard]] std::vector<HardwareFault> hardware_faults(const Report& report, const MailSettings& settings);

[[nodiscard]] MailMessage compose_mail(const Report& report, const MailSettings& settings, const MailContext& context);

/// The administrators' mail about many jobs.
struct Digest {
  std::string id;  // another one for another digest
  std::string subject;
  std::string text;
  std::string json;                      // attached
  std::string json_name = "nodes.json";  // its name there
};

/// Without words of the job's program; titles and steps are those of the rule table.
[[nodiscard]] Report as_administrators_read(const Report& report);

/// The addresses of the other ends of the job's connections, as far as the report has them; the longest first.
[[nodiscard]] std::vector<std::string> peer_addresses(const Report& report);
/// With "(a peer)" for these, which are the business of the job's owner.
[[nodiscard]] std::string without_peers(std::string text, const std::vector<std::string>& peers);

/// "  1. ipmitool sel list   # on n03: power brake": each on one line, to be copied; "  or ..." for an alternative.
[[nodiscard]] std::string numbered_steps(const std::vector<RemedyStep>& steps);

[[nodiscard]] MailMessage compose_digest(const Digest& digest, const MailSettings& settings,
                                         const MailContext& context);

/// One line that is inert in a header: printable(), cut at `limit` characters, and no text that only looks like an
/// encoded word ("=?utf-8?q?=0D=0ABcc:..?="), which a mail reader would decode.
[[nodiscard]] std::string header_text(std::string_view untrusted, std::size_t limit);

}  // namespace reveal
