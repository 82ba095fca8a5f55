#include "core/job/rdma_queues.h"

#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <array>
#include <optional>

namespace reveal {
namespace {

// Numbers of the InfiniBand specification, as ib_qp_type and ib_qp_state of the kernel have them.
// https://github.com/torvalds/linux/blob/master/include/rdma/ib_verbs.h
enum QueuePairType : std::uint8_t { reliable_connection = 2, unreliable_connection = 3 };
enum QueuePairState : std::uint8_t { ready_to_receive = 2, ready_to_send = 3 };

constexpr std::uint16_t type_of(int command) {
  return static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
}

struct DeviceAttribute {
  nlattr head;
  std::uint32_t index;
};

std::string query_kernel(int socket, std::span<std::byte> buffer, int command, std::optional<std::uint32_t> device,
                         const SeeMessage& see) {
  std::array<std::byte, sizeof(nlmsghdr) + sizeof(DeviceAttribute)> request{};
  const std::size_t size = device ? request.size() : sizeof(nlmsghdr);
  nlmsghdr header{};
  header.nlmsg_len = static_cast<std::uint32_t>(size);
  header.nlmsg_type = type_of(command);
  header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  std::memcpy(request.data(), &header, sizeof header);
  const DeviceAttribute attribute{{sizeof(DeviceAttribute), RDMA_NLDEV_ATTR_DEV_INDEX}, device.value_or(0)};
  std::memcpy(request.data() + sizeof header, &attribute, sizeof attribute);
  return receive_dump(socket, std::span<const std::byte>(request).first(size), buffer, see);
}

template <typename T>
std::optional<T> number_in(std::span<const std::byte> entry, std::uint16_t type) {
  return head_of_message<T>(attribute_of(entry, type));
}

bool is_of_kernel(std::span<const std::byte> entry) {
  return !attribute_of(entry, RDMA_NLDEV_ATTR_RES_KERN_NAME).empty();
}

}  // namespace

void RdmaTally::see(std::uint16_t type, std::span<const std::byte> body) {
  const bool pairs = type == type_of(RDMA_NLDEV_CMD_RES_QP_GET);
  if (!pairs && type != type_of(RDMA_NLDEV_CMD_RES_CQ_GET)) return;
  const auto list = static_cast<std::uint16_t>(pairs ? RDMA_NLDEV_ATTR_RES_QP : RDMA_NLDEV_ATTR_RES_CQ);
  const auto entry = static_cast<std::uint16_t>(pairs ? RDMA_NLDEV_ATTR_RES_QP_ENTRY : RDMA_NLDEV_ATTR_RES_CQ_ENTRY);
  const bool whole = each_attribute(body, [&](std::uint16_t outer, std::span<const std::byte> entries) {
    if (outer != list) return;
    const bool all = each_attribute(entries, [&](std::uint16_t inner, std::span<const std::byte> value) {
      if (inner != entry) return;
      if (!each_attribute(value, [](std::uint16_t, std::span<const std::byte>) {})) {
        malformed_ = true;
      } else if (pairs) {
        see_pair(value);
      } else {
        see_queue(value);
      }
    });
    malformed_ = malformed_ || !all;
  });
  malformed_ = malformed_ || !whole;
}

void RdmaTally::see_pair(std::span<const std::byte> entry) {
  if (is_of_kernel(entry)) return;
  const auto type = number_in<std::uint8_t>(entry, RDMA_NLDEV_ATTR_RES_TYPE);
  const auto state = number_in<std::uint8_t>(entry, RDMA_NLDEV_ATTR_RES_STATE);
  const auto number = number_in<std::uint32_t>(entry, RDMA_NLDEV_ATTR_RES_LQPN);
  if (!type || !state || !number) {
    malformed_ = true;
    return;
  }
  if (*type != reliable_connection && *type != unreliable_connection) return;
  if (*state != ready_to_receive && *state != ready_to_send) return;
  if (number_in<std::uint32_t>(entry, RDMA_NLDEV_ATTR_RES_RQPN) == number || !pairs_.insert(*number).second) return;
  ++by_thread_[number_in<std::uint32_t>(entry, RDMA_NLDEV_ATTR_RES_PID).value_or(0)].connected_pairs;
}

void RdmaTally::see_queue(std::span<const std::byte> entry) {
  if (is_of_kernel(entry)) return;
  const auto users = number_in<std::uint64_t>(entry, RDMA_NLDEV_ATTR_RES_USECNT);
  if (!users) {
    malformed_ = true;
    return;
  }
  // Kernels before 5.2 do not number them.
  const auto number = number_in<std::uint32_t>(entry, RDMA_NLDEV_ATTR_RES_CQN);
  if (*users == 0 || (number && !queues_.insert(*number).second)) return;
  ++by_thread_[number_in<std::uint32_t>(entry, RDMA_NLDEV_ATTR_RES_PID).value_or(0)].completion_queues;
}

RdmaDevice rdma_device_of(std::uint16_t type, std::span<const std::byte> body) {
  if (type != type_of(RDMA_NLDEV_CMD_GET)) return {};
  const auto index = number_in<std::uint32_t>(body, RDMA_NLDEV_ATTR_DEV_INDEX);
  const auto name = attribute_of(body, RDMA_NLDEV_ATTR_DEV_NAME);
  if (!index) return {};
  RdmaDevice device{.index = *index};
  for (const std::byte letter : name) {
    const char character = static_cast<char>(letter);
    if (character == '\0') break;
    if (character <= ' ' || character > '~') return {};  // no device is called so, and it would not fit into a line
    device.name += character;
  }
  return device;
}

std::string list_rdma_devices(int socket, std::span<std::byte> buffer, std::vector<RdmaDevice>& devices) {
  return query_kernel(socket, buffer, RDMA_NLDEV_CMD_GET, std::nullopt,
                      [&devices](std::uint16_t type, std::span<const std::byte> body) {
                        RdmaDevice device = rdma_device_of(type, body);
                        if (!device.name.empty()) devices.push_back(std::move(device));
                      });
}

std::string count_rdma_queues(int socket, std::span<std::byte> buffer, const RdmaDevice& device, RdmaTally& tally) {
  for (const int command : {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CQ_GET}) {
    std::string problem =
        query_kernel(socket, buffer, command, device.index,
                     [&tally](std::uint16_t type, std::span<const std::byte> body) { tally.see(type, body); });
    if (!problem.empty()) return problem;
  }
  return tally.malformed() ? "the kernel's answer is not as documented" : "";
}

}  // namespace reveal
