// NFS as this client sees it: requests, bytes and time of each mount, those without an answer, and retransmissions of
// the whole node.
// https://man7.org/linux/man-pages/man8/mountstats.8.html
#include <algorithm>
#include <array>

#include "core/sampler/instances.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::nfs {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::size_t kMostMounts = 32;
constexpr std::size_t kMostLater = 8;

constexpr MetricHelp kCounts[] = {
    {"nfs.requests", "Requests of one kind to the server of a mount (instance \"/home:READ\")."},
    {"nfs.retransmissions", "Requests sent again because no answer came."},
    {"nfs.timeouts", "Requests without an answer for longer than the major timeout."},
};
constexpr MetricHelp kBytes[] = {
    {"nfs.sent_bytes", "Bytes sent in requests of one kind."},
    {"nfs.received_bytes", "Bytes received in answers to them."},
};
constexpr MetricHelp kTimes[] = {
    {"nfs.queue_time", "Time requests waited in this client before they were sent."},
    {"nfs.round_trip_time", "Time from sending requests to their answers: network and server."},
    {"nfs.execute_time", "Time from issuing requests to their end, queueing included."},
};
constexpr MetricHelp kMountBytes[] = {
    {"nfs.read_bytes", "Bytes that programs read from the mount, from the cache or the server."},
    {"nfs.write_bytes", "Bytes that programs wrote to the mount."},
    {"nfs.direct_read_bytes", "Bytes that programs read with O_DIRECT."},
    {"nfs.direct_write_bytes", "Bytes that programs wrote with O_DIRECT."},
    {"nfs.server_read_bytes", "Bytes read from the server."},
    {"nfs.server_write_bytes", "Bytes written to the server."},
};
constexpr MetricHelp kRpc[] = {
    {"nfs.rpc_calls", "Calls of all NFS mounts."},
    {"nfs.rpc_retransmissions", "Calls sent again."},
    {"nfs.rpc_authentications", "Times credentials were refreshed."},
};

constexpr MetricHelp kTransport[] = {
    {"nfs.unanswered",
     "Requests on the connections of the mount that were sent and have no answer yet; one that was sent twice stays."},
};

constexpr std::string_view kMountStats = "/proc/self/mountstats";
constexpr std::string_view kRpcStats = "/proc/net/rpc/nfs";
constexpr Subsystem kStorage = Subsystem::storage;
constexpr FamilyTable kFamilies[] = {
    {"storage/nfs", Kind::counter, Unit::count, Scope::device, kStorage, "Requests of each NFS mount by kind",
     kMountStats, kCounts},
    {"storage/nfs_bytes", Kind::counter, Unit::bytes, Scope::device, kStorage, "Bytes of requests of each NFS mount",
     kMountStats, kBytes},
    {"storage/nfs_time", Kind::counter, Unit::nanoseconds, Scope::device, kStorage,
     "Time of requests of each NFS mount", kMountStats, kTimes},
    {"storage/nfs_mount", Kind::counter, Unit::bytes, Scope::device, kStorage, "Bytes of programs on each NFS mount",
     kMountStats, kMountBytes},
    {"storage/nfs_transport", Kind::gauge, Unit::count, Scope::device, kStorage, "Requests that wait for the server",
     kMountStats, kTransport},
    {"storage/nfs_rpc", Kind::counter, Unit::count, Scope::node, kStorage, "Remote calls of all NFS mounts", kRpcStats,
     kRpc},
};

// Kinds of requests with channels of their own: requests that move data, and those that jobs with many small files wait
// for.
constexpr std::array<std::string_view, 10> kOwnKinds = {"READ", "WRITE",  "COMMIT", "GETATTR", "LOOKUP",
                                                        "OPEN", "ACCESS", "CREATE", "REMOVE",  "READDIR"};
constexpr std::string_view kOtherKinds = "other";

// "READ: ops transmissions timeouts sent received queue_ms rtt_ms execute_ms [errors]"
enum Column : std::uint8_t {
  operations,
  transmissions,
  timeouts,
  sent,
  received,
  queue,
  round_trip,
  execute,
  kColumns
};
using Columns = std::array<std::int64_t, kColumns>;

class NfsProbe final : public Probe {
 public:
  explicit NfsProbe(const ProbeContext& context)
      : sink_(context.sink),
        mounts_file_(context.fs.open(std::string(kMountStats), 16384)),
        rpc_file_(context.fs.open(std::string(kRpcStats))),
        lasting_({.at_first = kMostMounts, .later = kMostLater}) {
    // Homes are often mounted on the first access: that the kernel's client is loaded is enough.
    const bool mounted = mounts_file_.read().find(" with fstype nfs") != std::string_view::npos;
    if (!mounted && rpc_file_.read().empty()) throw Unavailable("this node has no NFS mount");
    for (std::size_t i = 0; i < families_.size(); ++i) {
      families_[i] = &context.family(kFamilies[i]);
      const bool by_kind = i < 3;
      if (i < 5) families_[i]->expect(kMostLater * kFamilies[i].metrics.size() * (by_kind ? kOwnKinds.size() + 1 : 1));
    }
    families_.back()->add_all(kRpc);
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    for (Mount& mount : mounts_) mount.others = {};
    mount_ = nullptr;
    lasting_.begin_look(sink_.now());
    std::string_view rest = mounts_file_.read();
    std::string_view line;
    while (next_line(rest, line)) parse_line(line);
    if (mount_ != nullptr) end_mount();
    lasting_.end_look();
    parse_rpc(rpc_file_.read());
    for (Family* family : families_) family->commit();
  }

  [[nodiscard]] std::string caveat() const override {
    return some_left_out_ ? "some mounts are not measured: they existed for less than 10 s, or there were too many"
                          : "";
  }

 private:
  struct Request {
    std::int32_t counts = Family::kNoChannel;
    std::int32_t bytes = Family::kNoChannel;
    std::int32_t times = Family::kNoChannel;
    bool idle = false;  // there was a row in which it had never happened
  };
  struct Mount {
    std::string point;
    std::int32_t bytes = Family::kNoChannel;
    std::int32_t unanswered = Family::kNoChannel;
    std::array<Request, kOwnKinds.size() + 1> requests;
    Columns others{};
    bool any_others = false;
    std::int64_t waiting = kMissing;  // over its connections
  };

  // "device server:/export mounted on /home with fstype nfs4 statvers=1.1"
  void begin_mount(std::string_view line) {
    if (mount_ != nullptr) end_mount();
    mount_ = nullptr;
    const std::size_t on = line.find(" mounted on ");
    const std::size_t with = line.rfind(" with fstype ");
    if (on == std::string_view::npos || with == std::string_view::npos || with < on + 12) return;
    const std::string_view point = line.substr(on + 12, with - on - 12);
    std::string_view type = line.substr(with + 13);
    type = cut_word(type);
    if (type != "nfs" && type != "nfs4") return;
    LastingInstances::Member* member = lasting_.see(point);
    if (member != nullptr) member->awaited = true;  // homes are mounted on the first access
    if (member == nullptr || !lasting_.admit(*member)) {
      some_left_out_ = true;
      return;
    }
    const auto place = static_cast<std::size_t>(member->place);
    if (place == mounts_.size()) mounts_.emplace_back().point = point;
    mount_ = &mounts_[place];
    mount_->any_others = false;
    mount_->waiting = kMissing;
  }

  void parse_line(std::string_view line) {
    if (line.starts_with("device ")) {
      begin_mount(line);
      return;
    }
    if (mount_ == nullptr) return;
    const std::string_view key = cut_word(line);
    if (key.size() < 2 || key.back() != ':') return;
    const std::string_view name = key.substr(0, key.size() - 1);
    if (name == "bytes") {
      parse_bytes_line(line);
    } else if (name == "xprt") {
      parse_connection(line);
    } else if (name.front() >= 'A' && name.front() <= 'Z') {
      parse_request(name, line);
    }
  }

  void parse_bytes_line(std::string_view line) {
    std::array<std::int64_t, std::size(kMountBytes)> values{};
    for (std::int64_t& value : values) {
      if (!parse_counter(cut_word(line), value)) return;
    }
    Family& family = *families_[3];
    if (mount_->bytes == Family::kNoChannel) mount_->bytes = family.add_all(kMountBytes, mount_->point);
    for (std::size_t i = 0; i < values.size(); ++i) family.set(mount_->bytes + static_cast<std::int32_t>(i), values[i]);
  }

  void parse_request(std::string_view kind, std::string_view line) {
    Columns values{};
    for (std::int64_t& value : values) {
      if (!parse_counter(cut_word(line), value)) return;
    }
    const auto own = std::find(kOwnKinds.begin(), kOwnKinds.end(), kind);
    if (own != kOwnKinds.end()) {
      store(static_cast<std::size_t>(own - kOwnKinds.begin()), *own, values);
      return;
    }
    mount_->any_others = true;
    for (std::size_t i = 0; i < values.size(); ++i) {
      mount_->others[i] = wrapping_sum(mount_->others[i], values[i]);
    }
  }

  // "tcp PORT BINDS CONNECTS CONNECT_TIME IDLE_TIME SENT ANSWERED ..." (nconnect: several lines); rdma begins alike.
  void parse_connection(std::string_view line) {
    const std::string_view type = cut_word(line);
    if (type != "tcp" && type != "rdma") return;
    skip_words(line, 5);
    std::int64_t sent = 0;
    std::int64_t answered = 0;
    if (!parse_counter(cut_word(line), sent) || !parse_counter(cut_word(line), answered)) return;
    const std::int64_t waiting = std::max<std::int64_t>(0, sent - answered);
    mount_->waiting = mount_->waiting == kMissing ? waiting : wrapping_sum(mount_->waiting, waiting);
  }

  void end_mount() {
    if (mount_->any_others) store(kOwnKinds.size(), kOtherKinds, mount_->others);
    if (mount_->waiting == kMissing) return;
    if (mount_->unanswered == Family::kNoChannel) {
      mount_->unanswered = families_[4]->add(kTransport[0].name, mount_->point);
    }
    families_[4]->set(mount_->unanswered, mount_->waiting);
  }

  // Requests that never happened get no channel.
  void store(std::size_t number, std::string_view kind, const Columns& values) {
    Request& request = mount_->requests[number];
    if (request.counts == Family::kNoChannel) {
      if (values[operations] == 0 && values[transmissions] == 0) {
        request.idle = true;
        return;
      }
      const std::string instance = mount_->point + ':' + std::string(kind);
      request.counts = families_[0]->add_all(kCounts, instance);
      request.bytes = families_[1]->add_all(kBytes, instance);
      request.times = families_[2]->add_all(kTimes, instance);
      // A trace has no increase of a channel's first value. Here the value before is known: it is stored first, so that
      // the increase of the next row has both. Many kinds happen within one row, and never again.
      if (request.idle) {
        set(request, {});
        return;
      }
    }
    set(request, values);
  }

  void set(const Request& request, const Columns& values) {
    families_[0]->set(request.counts, values[operations]);
    families_[0]->set(request.counts + 1, std::max<std::int64_t>(0, values[transmissions] - values[operations]));
    families_[0]->set(request.counts + 2, values[timeouts]);
    families_[1]->set(request.bytes, values[sent]);
    families_[1]->set(request.bytes + 1, values[received]);
    families_[2]->set(request.times, scaled(values[queue], kMillisecond));
    families_[2]->set(request.times + 1, scaled(values[round_trip], kMillisecond));
    families_[2]->set(request.times + 2, scaled(values[execute], kMillisecond));
  }

  // "rpc calls retransmissions authentications"
  void parse_rpc(std::string_view text) {
    std::string_view line;
    while (next_line(text, line)) {
      if (cut_word(line) != "rpc") continue;
      for (std::size_t i = 0; i < std::size(kRpc); ++i) {
        std::int64_t value = 0;
        if (!parse_counter(cut_word(line), value)) return;
        families_.back()->set(static_cast<std::int32_t>(i), value);
      }
    }
  }

  const TraceSink& sink_;
  KernelFile mounts_file_;
  KernelFile rpc_file_;
  std::array<Family*, std::size(kFamilies)> families_{};
  LastingInstances lasting_;
  bool some_left_out_ = false;
  std::vector<Mount> mounts_;
  Mount* mount_ = nullptr;
};

std::unique_ptr<Probe> open_nfs(const ProbeContext& context) {
  return std::make_unique<NfsProbe>(context);
}

const RegisteredProbe entry{{.name = "nfs",
                             .help = "Requests, bytes, time and retransmissions of each NFS mount",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_nfs,
                             .remedy = "not needed if no file system is mounted by NFS"}};

}  // namespace
}  // namespace reveal::probe::nfs
