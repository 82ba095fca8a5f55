// The kernel's answers about RDMA devices and their queues.
#include "core/job/rdma_queues.h"

#include "target.h"

namespace reveal::fuzz::rdma_queues {
namespace {

void run(std::string_view input) {
  RdmaTally tally;
  std::string problem;
  static_cast<void>(read_dump(
      std::as_bytes(std::span(input)),
      [&tally](std::uint16_t type, std::span<const std::byte> body) {
        tally.see(type, body);
        const RdmaDevice device = rdma_device_of(type, body);
        require(device.name.find_first_of(" \n") == std::string::npos, "a name is one word");
      },
      problem));
  for (const auto& [thread, queues] : tally.by_thread()) {
    require(queues.connected_pairs >= 0 && queues.completion_queues >= 0, "queues are counted");
    require(queues.connected_pairs + queues.completion_queues > 0, "who has none is not listed");
  }
}

const RegisteredTarget kTarget{{"rdma_queues", run}};

}  // namespace
}  // namespace reveal::fuzz::rdma_queues
