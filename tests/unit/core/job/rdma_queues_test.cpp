#include "core/job/rdma_queues.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace reveal::tests::rdma_queues_test {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

template <typename T>
Bytes bytes_of(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

Bytes text(std::string_view letters) {
  const auto bytes = std::as_bytes(std::span(letters));
  Bytes all(bytes.begin(), bytes.end());
  all.push_back(std::byte{0});
  return all;
}

Bytes attribute(std::uint16_t type, const Bytes& value) {
  Bytes bytes = bytes_of(nlattr{static_cast<std::uint16_t>(sizeof(nlattr) + value.size()), type});
  append(bytes, value);
  bytes.resize(NLA_ALIGN(bytes.size()));
  return bytes;
}

Bytes message(std::uint16_t type, const Bytes& body, std::uint16_t flags = NLM_F_MULTI) {
  nlmsghdr header{};
  header.nlmsg_len = static_cast<std::uint32_t>(sizeof header + body.size());
  header.nlmsg_type = type;
  header.nlmsg_flags = flags;
  Bytes bytes = bytes_of(header);
  append(bytes, body);
  return bytes;
}

Bytes message_of(int command, const Bytes& body) {
  return message(static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)), body);
}

Bytes end_of_list(int error = 0) {
  return message(NLMSG_DONE, bytes_of(error));
}

/// As the kernel writes it, in its order.
struct Pair {
  std::uint32_t number = 0;
  std::uint32_t remote = 0;
  std::uint8_t type = 2;   // RC
  std::uint8_t state = 3;  // RTS
  std::optional<std::uint32_t> thread = 4711;

  [[nodiscard]] Bytes entry() const {
    Bytes all = attribute(RDMA_NLDEV_ATTR_PORT_INDEX, bytes_of(std::uint32_t{1}));
    append(all, attribute(RDMA_NLDEV_ATTR_RES_LQPN, bytes_of(number)));
    append(all, attribute(RDMA_NLDEV_ATTR_RES_PDN, bytes_of(std::uint32_t{5})));
    if (thread) append(all, attribute(RDMA_NLDEV_ATTR_RES_PID, bytes_of(*thread)));
    if (type == 2 || type == 3) append(all, attribute(RDMA_NLDEV_ATTR_RES_RQPN, bytes_of(remote)));
    append(all, attribute(RDMA_NLDEV_ATTR_RES_SQ_PSN, bytes_of(std::uint32_t{77})));
    append(all, attribute(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, bytes_of(std::uint8_t{0})));
    append(all, attribute(RDMA_NLDEV_ATTR_RES_TYPE, bytes_of(type)));
    append(all, attribute(RDMA_NLDEV_ATTR_RES_STATE, bytes_of(state)));
    return attribute(RDMA_NLDEV_ATTR_RES_QP_ENTRY, all);
  }
};

Bytes of_device(std::uint16_t list, const Bytes& entries) {
  Bytes body = attribute(RDMA_NLDEV_ATTR_DEV_INDEX, bytes_of(std::uint32_t{3}));
  append(body, attribute(RDMA_NLDEV_ATTR_DEV_NAME, text("mlx5_0")));
  append(body, attribute(list, entries));
  return body;
}

Bytes pairs_message(const std::vector<Pair>& pairs) {
  Bytes entries;
  for (const Pair& pair : pairs) append(entries, pair.entry());
  return message_of(RDMA_NLDEV_CMD_RES_QP_GET, of_device(RDMA_NLDEV_ATTR_RES_QP, entries));
}

Bytes queue_entry(std::uint32_t number, std::uint64_t users, std::uint32_t thread = 4711) {
  Bytes all = attribute(RDMA_NLDEV_ATTR_RES_CQE, bytes_of(std::uint32_t{256}));
  append(all, attribute(RDMA_NLDEV_ATTR_PAD, {}));
  append(all, attribute(RDMA_NLDEV_ATTR_RES_USECNT, bytes_of(users)));
  append(all, attribute(RDMA_NLDEV_ATTR_RES_CQN, bytes_of(number)));
  append(all, attribute(RDMA_NLDEV_ATTR_RES_PID, bytes_of(thread)));
  return attribute(RDMA_NLDEV_ATTR_RES_CQ_ENTRY, all);
}

/// Reads answers of the kernel, one after the other.
struct Parsed {
  RdmaTally tally;
  std::string problem;
  bool done = false;

  explicit Parsed(const std::vector<Bytes>& answers) {
    for (const Bytes& answer : answers) {
      done = read_dump(
          answer, [this](std::uint16_t type, std::span<const std::byte> body) { tally.see(type, body); }, problem);
    }
  }
  [[nodiscard]] std::int64_t pairs(std::uint32_t thread) const {
    const auto found = tally.by_thread().find(thread);
    return found == tally.by_thread().end() ? -1 : found->second.connected_pairs;
  }
  [[nodiscard]] std::int64_t queues(std::uint32_t thread) const {
    const auto found = tally.by_thread().find(thread);
    return found == tally.by_thread().end() ? -1 : found->second.completion_queues;
  }
};

TEST(RdmaQueues, CountConnectedPairsByTheThreadThatMadeThem) {
  const Parsed parsed(
      {pairs_message({{.number = 17, .remote = 40}, {.number = 18, .remote = 41}, {.number = 19, .thread = 9}}),
       end_of_list()});
  EXPECT_TRUE(parsed.done);
  EXPECT_EQ(parsed.problem, "");
  EXPECT_FALSE(parsed.tally.malformed());
  EXPECT_EQ(parsed.pairs(4711), 2);
  EXPECT_EQ(parsed.pairs(9), 1);
}

TEST(RdmaQueues, LeaveOutPairsThatCarryNothingToAnotherOne) {
  const Parsed parsed({pairs_message({{.number = 1, .type = 1},                     // GSI
                                      {.number = 20, .remote = 30, .state = 0},     // reset
                                      {.number = 21, .remote = 31, .state = 1},     // initialised
                                      {.number = 22, .remote = 32, .state = 6},     // in error
                                      {.number = 23, .remote = 23},                 // with itself
                                      {.number = 24, .type = 4},                    // UD has no connection
                                      {.number = 25, .remote = 35, .state = 2},     // only receives
                                      {.number = 26, .remote = 36, .type = 3}})});  // UC
  EXPECT_EQ(parsed.pairs(4711), 2);
}

TEST(RdmaQueues, LeaveOutThoseOfTheKernelAndNameNobodyWhereTheThreadHasEnded) {
  Bytes of_kernel;
  append(of_kernel, attribute(RDMA_NLDEV_ATTR_RES_LQPN, bytes_of(std::uint32_t{50})));
  append(of_kernel, attribute(RDMA_NLDEV_ATTR_RES_KERN_NAME, text("rpcrdma")));
  append(of_kernel, attribute(RDMA_NLDEV_ATTR_RES_RQPN, bytes_of(std::uint32_t{60})));
  append(of_kernel, attribute(RDMA_NLDEV_ATTR_RES_TYPE, bytes_of(std::uint8_t{2})));
  append(of_kernel, attribute(RDMA_NLDEV_ATTR_RES_STATE, bytes_of(std::uint8_t{3})));
  Bytes entries = attribute(RDMA_NLDEV_ATTR_RES_QP_ENTRY, of_kernel);
  append(entries, Pair{.number = 51, .remote = 61, .thread = std::nullopt}.entry());
  const Parsed parsed(
      {message_of(RDMA_NLDEV_CMD_RES_QP_GET, of_device(RDMA_NLDEV_ATTR_RES_QP, entries)), end_of_list()});
  EXPECT_EQ(parsed.pairs(0), 1);
  EXPECT_EQ(parsed.tally.by_thread().size(), 1U);
}

TEST(RdmaQueues, CountThousandsThatComeInManyMessagesAndOnceThoseThatComeTwice) {
  std::vector<Bytes> answers;
  std::uint32_t number = 0;
  for (int answer = 0; answer < 50; ++answer) {
    std::vector<Pair> pairs;
    for (int i = 0; i < 100; ++i, ++number) pairs.push_back({.number = 1000 + number, .remote = number});
    answers.push_back(pairs_message(pairs));
  }
  answers.push_back(answers.back());  // one before it was closed while the list was sent
  answers.push_back(end_of_list());
  const Parsed parsed(answers);
  EXPECT_TRUE(parsed.done);
  EXPECT_EQ(parsed.pairs(4711), 5000);
}

TEST(RdmaQueues, CountCompletionQueuesThatQueuePairsUse) {
  Bytes entries = queue_entry(1, 2);
  append(entries, queue_entry(2, 0));
  append(entries, queue_entry(3, 8, 9));
  append(entries, queue_entry(3, 8, 9));
  const Parsed parsed(
      {message_of(RDMA_NLDEV_CMD_RES_CQ_GET, of_device(RDMA_NLDEV_ATTR_RES_CQ, entries)), end_of_list()});
  EXPECT_EQ(parsed.queues(4711), 1);
  EXPECT_EQ(parsed.queues(9), 1);
  EXPECT_FALSE(parsed.tally.malformed());
}

TEST(RdmaQueues, AreReadThoughTheAnswerMayBeCutOffAnywhere) {
  const Bytes whole = pairs_message({{.number = 17, .remote = 40}, {.number = 18, .remote = 41}});
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_EQ(Parsed({Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))}).problem,
              "the kernel's answer was cut off")
        << size;
    if (size < sizeof(nlmsghdr)) continue;
    Bytes shorter(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto length = static_cast<std::uint32_t>(size);
    std::memcpy(shorter.data(), &length, sizeof length);  // the header's length ends here
    const Parsed parsed({shorter});
    const bool before_the_list = size <= sizeof(nlmsghdr) + 8 + 12;  // the device's number and name
    EXPECT_LE(parsed.pairs(4711), 1) << size;
    EXPECT_TRUE(parsed.tally.malformed() || (before_the_list && parsed.pairs(4711) == -1)) << size;
  }
}

TEST(RdmaQueues, AreNotCountedFromWrongLengths) {
  const Bytes whole = pairs_message({{.number = 17, .remote = 40}});
  constexpr std::size_t kListAt = sizeof(nlmsghdr) + 8 + 12;
  constexpr std::size_t kEntryAt = kListAt + sizeof(nlattr);
  for (const std::size_t at : {kListAt, kEntryAt, kEntryAt + sizeof(nlattr)}) {
    for (const int claimed : {0, 3, 5000, 65535}) {
      const auto length = static_cast<std::uint16_t>(claimed);
      Bytes wrong = whole;
      std::memcpy(wrong.data() + at, &length, sizeof length);
      const Parsed parsed({wrong});
      EXPECT_TRUE(parsed.tally.malformed()) << at << ' ' << length;
      EXPECT_EQ(parsed.pairs(4711), -1) << at << ' ' << length;
    }
  }
  // A state without a value.
  Bytes entry = attribute(RDMA_NLDEV_ATTR_RES_LQPN, bytes_of(std::uint32_t{9}));
  append(entry, attribute(RDMA_NLDEV_ATTR_RES_TYPE, bytes_of(std::uint8_t{2})));
  append(entry, attribute(RDMA_NLDEV_ATTR_RES_STATE, {}));
  const Bytes list = attribute(RDMA_NLDEV_ATTR_RES_QP_ENTRY, entry);
  EXPECT_TRUE(
      Parsed({message_of(RDMA_NLDEV_CMD_RES_QP_GET, of_device(RDMA_NLDEV_ATTR_RES_QP, list))}).tally.malformed());
}

TEST(RdmaQueues, AreNotAllThereWhereTheKernelRefusedOrTheDeviceIsGone) {
  const Parsed refused({message(NLMSG_ERROR, bytes_of(-EPERM))});
  EXPECT_TRUE(refused.done);
  EXPECT_EQ(refused.problem, "Operation not permitted");
  const Parsed gone({pairs_message({{.number = 17}}), end_of_list(-EINVAL)});
  EXPECT_TRUE(gone.done);
  EXPECT_EQ(gone.problem, "Invalid argument");
  EXPECT_EQ(Parsed({message(NLMSG_ERROR, {})}).problem, std::strerror(EPROTO));
}

TEST(RdmaQueues, NameDevicesThatHaveAName) {
  const auto device = [](const Bytes& body) {
    return rdma_device_of(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), body);
  };
  Bytes body = attribute(RDMA_NLDEV_ATTR_DEV_INDEX, bytes_of(std::uint32_t{3}));
  EXPECT_EQ(device(body).name, "");
  append(body, attribute(RDMA_NLDEV_ATTR_DEV_NAME, text("mlx5_bond_0")));
  EXPECT_EQ(device(body).index, 3U);
  EXPECT_EQ(device(body).name, "mlx5_bond_0");
  Bytes strange = attribute(RDMA_NLDEV_ATTR_DEV_INDEX, bytes_of(std::uint32_t{4}));
  append(strange, attribute(RDMA_NLDEV_ATTR_DEV_NAME, text("mlx5_0 9\nprocess 1")));
  EXPECT_EQ(device(strange).name, "") << "it would be a line of its own";
  EXPECT_EQ(rdma_device_of(NLMSG_NOOP, body).name, "");
}

}  // namespace
}  // namespace reveal::tests::rdma_queues_test
