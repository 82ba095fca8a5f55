// /proc/net/sockstat and sockstat6 of the job's network namespaces: how many sockets there are, and the memory they
// hold. The kernel throttles all of TCP when it reaches net.ipv4.tcp_mem.
// https://man7.org/linux/man-pages/man7/tcp.7.html
#include <array>

#include "core/kernel_text/key_index.h"
#include "core/probes/metric_name.h"
#include "core/probes/namespace_texts.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::sockets {
namespace {

constexpr MetricHelp kSockets[] = {
    {"sockets.used", "Sockets of every kind."},
    {"sockets.tcp_inuse", "TCP sockets in use; tcp6 and so on: over IPv6."},
    {"sockets.tcp_orphan", "Connections that no longer belong to a process."},
    {"sockets.tcp_tw", "Closed connections that wait for late segments."},
    {"sockets.tcp_alloc", "TCP sockets with memory."},
    {"sockets.<protocol>_<key>", "Other counters, with the kernel's names."},
};
constexpr MetricHelp kMemory[] = {
    {"sockets.tcp_mem", "Buffers of all TCP sockets of the host; net.ipv4.tcp_mem limits them."},
    {"sockets.udp_mem", "Buffers of all UDP sockets of the host."},
    {"sockets.frag_memory", "Fragments of datagrams that are not complete."},
    {"sockets.frag6_memory", "Fragments of IPv6 datagrams that are not complete."},
};
constexpr FamilyTable kFamilies[] = {
    {"network/sockets", Kind::gauge, Unit::count, Scope::node, Subsystem::network, "Sockets by protocol",
     "/proc/PID/net/sockstat, sockstat6", kSockets},
    {"network/socket_memory", Kind::gauge, Unit::bytes, Scope::node, Subsystem::network, "Memory of sockets",
     "/proc/PID/net/sockstat, sockstat6", kMemory},
};

class SocketsProbe final : public Probe {
 public:
  explicit SocketsProbe(const ProbeContext& context)
      : texts_{Texts(context, "sockstat", 512, "the kernel's socket counts cannot be read"),
               Texts(context, "sockstat6", 256, "")},
        page_bytes_(context.host.page_bytes),
        caveat_(context.host.caveat),
        sockets_(context.family(kFamilies[0])),
        memory_(context.family(kFamilies[1])) {}

  void sample() noexcept override {
    bool repeat = true;
    for (Texts& texts : texts_) repeat = texts.update() && repeat;  // all of them
    if (!repeat) parse();
    sockets_.commit();
    memory_.commit();
  }

  [[nodiscard]] std::string caveat() const override { return caveat_; }

 private:
  struct Channel {
    Family* family = nullptr;
    std::int32_t number = Family::kNoChannel;
    std::int64_t scale = 1;
  };
  struct Parsed {
    KeyedValues<Channel> channels;  // "tcp_inuse"
  };
  using Texts = NamespaceTexts<Parsed>;

  void parse() {
    sockets_.begin();
    memory_.begin();
    for (Texts& texts : texts_) {
      for (Texts::Place& place : texts.places()) {
        place.channels.rewind();
        std::string_view rest = place.text.parse();
        std::string_view line;
        while (next_line(rest, line)) parse_line(place, line);
      }
    }
  }

  /// "TCP: inuse 4 orphan 0 tw 0 alloc 6 mem 1"
  void parse_line(Texts::Place& place, std::string_view line) {
    const std::string_view protocol = cut_word(line);
    if (protocol.size() < 2 || protocol.back() != ':') return;
    for (std::string_view key = cut_word(line); !key.empty(); key = cut_word(line)) {
      const std::string_view word = cut_word(line);
      std::int64_t value = 0;
      if (!parse_counter(word, value)) return;
      name_.assign(protocol.substr(0, protocol.size() - 1)).append(1, '_').append(key);
      const Channel& channel = place.channels.at(name_, [&] { return channel_of(protocol, key, place.instance); });
      place.text.set(word, *channel.family, channel.number, channel.scale);
    }
  }

  /// The kernel counts "mem" in pages and "memory" in bytes. Some it counts for the whole host, in every namespace.
  Channel channel_of(std::string_view protocol, std::string_view key, const std::string& instance) {
    const bool in_pages = key == "mem";
    Family& family = in_pages || key == "memory" ? memory_ : sockets_;
    if (!instance.empty() && (in_pages || key == "orphan" || key == "alloc")) return {&family};
    const std::string of = protocol == "sockets:" ? "" : snake_case(protocol) + '_';
    return {&family, family.add("sockets." + of + snake_case(key), instance), in_pages ? page_bytes_ : 1};
  }

  std::array<Texts, 2> texts_;
  std::int64_t page_bytes_;
  std::string caveat_;
  Family& sockets_;
  Family& memory_;
  std::string name_;  // kept, so that nothing is allocated
};

std::unique_ptr<Probe> open_sockets(const ProbeContext& context) {
  return std::make_unique<SocketsProbe>(context);
}

const RegisteredProbe entry{{.name = "sockets",
                             .help = "Sockets and their memory in the job's network namespaces",
                             .families = kFamilies,
                             .open = open_sockets,
                             .remedy = "mount /proc without hiding net/ (containers: not masked)"}};

}  // namespace
}  // namespace reveal::probe::sockets
