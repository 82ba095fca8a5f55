// The kernel's answers about TCP connections, and their sums; and about interfaces and their queues.
#include "core/job/tcp_peers.h"
#include "core/kernel_text/link_list.h"
#include "core/kernel_text/queue_list.h"
#include "target.h"

namespace reveal::fuzz::connections {
namespace {

void read_interfaces(std::span<const std::byte> input) {
  const SeeMessage see = [](std::uint16_t, std::span<const std::byte> body) {
    if (const auto link = link_of_message(body)) require(!link->name.empty(), "an interface has a name");
    static_cast<void>(root_queue(body));
  };
  std::string problem;
  static_cast<void>(read_dump(input, see, problem));
  static_cast<void>(read_answer(input, see));
}

void run(std::string_view input) {
  read_interfaces(std::as_bytes(std::span(input)));
  TcpPeers peers;
  std::string problem;
  for (const auto look : {TcpPeers::Look::anew, TcpPeers::Look::usual, TcpPeers::Look::known, TcpPeers::Look::anew,
                          TcpPeers::Look::usual}) {
    peers.begin({0, 7}, look);
    peers.enter(0);
    const auto see = [&peers](const TcpSocket& socket) { peers.see(socket); };
    static_cast<void>(read_diagnosis(std::as_bytes(std::span(input)), see, problem));
    peers.introduce({0, 7, 12});
    static_cast<void>(peers.end(problem.empty()));
  }
  require(peers.rows().size() <= 1 + TcpPeers::kSlots, "there are as many rows as slots");
  for (const TcpPeers::Row& row : peers.rows()) {
    require(row.sums.connections >= 0 && row.sums.opened >= 0 && row.sums.closed >= 0, "connections are counted");
    const std::int64_t percent = row.chosen.percent();
    require(percent == kMissing || (percent >= 0 && percent <= 100), "a share is a share");
  }
}

const RegisteredTarget kTarget{{"connections", run}};

}  // namespace
}  // namespace reveal::fuzz::connections
