// Queue pairs and completion queues of RDMA devices as the kernel lists them by netlink, and the processes that made
// them. An ordinary user gets all of them on the devices of his network namespace.
// https://man7.org/linux/man-pages/man8/rdma-resource.8.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_text/netlink.h"

namespace reveal {

struct RdmaDevice {
  std::uint32_t index = 0;
  std::string name;
};

/// The objects that one thread made on a device and still has.
struct RdmaQueues {
  /// Reliable and unreliable connections that are ready to receive or to send, but not those of a queue pair with
  /// itself, by which GPU memory is flushed.
  std::int64_t connected_pairs = 0;
  std::int64_t completion_queues = 0;  // that queue pairs use
};

/// Sums the answers about one device.
class RdmaTally {
 public:
  /// One message of a list of queue pairs or of completion queues. An object that comes twice, because the list changed
  /// while it was sent, counts once.
  void see(std::uint16_t type, std::span<const std::byte> body);

  /// By thread; 0: the kernel does not report it, because the thread has ended or is in a container's own pid
  /// namespace.
  [[nodiscard]] const std::map<std::uint32_t, RdmaQueues>& by_thread() const noexcept { return by_thread_; }
  /// A message was not as the kernel writes them.
  [[nodiscard]] bool malformed() const noexcept { return malformed_; }

 private:
  void see_pair(std::span<const std::byte> entry);
  void see_queue(std::span<const std::byte> entry);

  std::map<std::uint32_t, RdmaQueues> by_thread_;
  std::set<std::uint32_t> pairs_, queues_;  // their numbers
  bool malformed_ = false;
};

/// The device of one message of the list of devices; without a name where it is none.
[[nodiscard]] RdmaDevice rdma_device_of(std::uint16_t type, std::span<const std::byte> body);

/// Returns "" or why the list is incomplete. After a problem, close the socket.
[[nodiscard]] std::string list_rdma_devices(int socket, std::span<std::byte> buffer, std::vector<RdmaDevice>& devices);
[[nodiscard]] std::string count_rdma_queues(int socket, std::span<std::byte> buffer, const RdmaDevice& device,
                                            RdmaTally& tally);

}  // namespace reveal
