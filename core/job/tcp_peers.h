// Counters of the job's TCP connections, summed by the address of their other end. Connections come and go; the sums of
// a peer never fall: each connection adds its increase since the last look.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/job/tcp_sockets.h"

namespace reveal {

/// A number in struct tcp_info (linux/tcp.h); its layout only grows.
struct TcpInfoField {
  std::string_view name;  // "retransmits"
  std::size_t offset;
  std::size_t bytes;
  std::int64_t factor = 1;  // to base units
};

inline constexpr std::int64_t kMicrosecondsToBase = 1000;

inline constexpr std::array kTcpCounters = {
    TcpInfoField{"retransmits", 100, 4},
    TcpInfoField{"out_of_order", 224, 4},
    TcpInfoField{"duplicates", 216, 4},
    TcpInfoField{"segments_sent", 156, 4},
    TcpInfoField{"segments_received", 152, 4},
    TcpInfoField{"bytes_acked", 120, 8},
    TcpInfoField{"bytes_received", 128, 8},
    TcpInfoField{"bytes_retransmitted", 208, 8},
    TcpInfoField{"busy_time", 168, 8, kMicrosecondsToBase},
    TcpInfoField{"receiver_limited_time", 176, 8, kMicrosecondsToBase},
    TcpInfoField{"buffer_limited_time", 184, 8, kMicrosecondsToBase},
};

/// How the levels of several connections become one.
enum class Merged : std::uint8_t { sum, least, mean };  // mean: weighted by their segments since the last look
struct TcpLevel {
  TcpInfoField field;
  Merged how;
};

inline constexpr std::array kTcpLevels = {
    TcpLevel{{"rtt", 68, 4, kMicrosecondsToBase}, Merged::mean},
    TcpLevel{{"rtt_variation", 72, 4, kMicrosecondsToBase}, Merged::mean},
    TcpLevel{{"rtt_least", 148, 4, kMicrosecondsToBase}, Merged::least},
    TcpLevel{{"cwnd", 80, 4}, Merged::sum},
    TcpLevel{{"unacked", 24, 4}, Merged::sum},
    TcpLevel{{"lost", 32, 4}, Merged::sum},
    TcpLevel{{"delivery_rate", 160, 8}, Merged::sum},
};

class TcpPeers {
 public:
  static constexpr std::size_t kSlots = 16;
  /// Slots that any peer gets; the others are for peers with some traffic.
  static constexpr std::size_t kSlotsForAll = 8;
  static constexpr std::int64_t kWorthASlot = 1 << 20;  // bytes moved
  static constexpr std::size_t kMostPeers = 4096;       // counted one by one, to find the busy ones
  static constexpr std::size_t kMostSockets = 1 << 17;  // followed, of all peers
  static constexpr std::size_t kMostRead = 512;         // looked up one by one

  using Counters = std::array<std::int64_t, kTcpCounters.size()>;
  using Levels = std::array<std::int64_t, kTcpLevels.size()>;

  /// Sums over some connections.
  struct Sums {
    Counters counters{};  // kMissing where this kernel does not count it
    Levels levels{};      // kMissing where there is no connection
    Levels weighted{};    // weighted sums of means
    std::int64_t weight = 0;
    std::int64_t opened = 0, closed = 0, connections = 0;

    void add(const Sums& more) noexcept;
  };
  /// Connections, of which kMostRead at most are looked up one by one. Each weighs by its segments between the last two
  /// looks at all (of a new one, by all of its segments), and a bit without any: few segments tell little of the next.
  struct Chosen {
    std::int64_t connections = 0;
    std::int64_t unread = 0;  // not looked up
    std::int64_t weight = 0;
    std::int64_t read_weight = 0;

    void add(const Chosen& more) noexcept;
    /// The share of the segments that is on the connections that are read, in percent. kMissing: there are none.
    [[nodiscard]] std::int64_t percent() const noexcept;
  };
  struct Row {
    std::string name;  // the peer's address; "others" is the first
    Sums sums;
    Chosen chosen{};  // by the last look at all before this one
  };

  /// Only usual looks and those anew see all sockets: the others begin no connection, and only `same` ends some.
  /// anew: the first one, or long after the last one. What is new to it, or was not read since, counts from then on:
  ///   otherwise the events of a long time would be those of one row. begin() gets the inodes of all sockets of the
  ///   job.
  /// same: at those in known_sockets(), in the place of a usual one, where no connection can have begun since the last
  ///   look at all: those that are not seen have ended. Only if are_few().
  /// known: at those in known_sockets(), in the place of a usual one.
  /// extra: between two usual ones. It counts nothing of a connection that only one usual look has seen: otherwise
  ///   short connections would count for more where there are extra looks.
  enum class Look : std::uint8_t { usual, anew, same, known, extra };

  /// A socket of the job, and the number of its network namespace.
  struct Known {
    std::uint64_t place;
    TcpSocketId id;
  };

  /// A look begins. `inodes`: of the job's sockets as far as they are known, sorted.
  void begin(std::vector<std::uint32_t> inodes, Look look = Look::usual);
  /// Announces the sockets of one network namespace, which has this number.
  void enter(std::uint64_t place);
  void see(const TcpSocket& socket);
  /// Whether sockets were seen that are not yet known as the job's or others': then introduce() needs those of the job.
  [[nodiscard]] bool has_strangers() const noexcept { return !strangers_.empty(); }
  void introduce(std::vector<std::uint32_t> inodes);
  /// `whole`: all sockets were seen, so that those that were not are closed. Gives the inodes back.
  [[nodiscard]] std::vector<std::uint32_t> end(bool whole);

  /// The job's sockets to look up one by one until the next look at all: all of the job if are_few(), else some of each
  /// row, and of the others those with the most segments.
  [[nodiscard]] std::span<const Known> known_sockets() const noexcept { return known_; }
  [[nodiscard]] bool are_few() const noexcept { return chosen_.unread == 0; }
  /// Whether one of the job was not seen by the last look that could end it, and counts as open.
  [[nodiscard]] bool awaits_some() const noexcept { return awaited_ > 0; }
  /// All rows together.
  [[nodiscard]] const Chosen& chosen() const noexcept { return chosen_; }

  [[nodiscard]] std::span<const Row> rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t sockets() const noexcept { return sockets_.size(); }
  /// More sockets than are followed were seen.
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

 private:
  static constexpr std::uint32_t kOthers = 0;
  /// Usual looks without a socket until it is taken for closed: a list that changes while it is read may lack one.
  static constexpr std::uint32_t kPatience = 2;

  struct Key {
    std::uint64_t place;
    std::uint64_t cookie;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<std::uint64_t>{}(key.cookie * 0x9e3779b97f4a7c15ULL + key.place);
    }
  };
  struct AddressHash {
    std::size_t operator()(const IpAddress& address) const noexcept {
      return std::hash<std::string_view>{}({reinterpret_cast<const char*>(address.data()), address.size()});
    }
  };
  struct Seen {
    Counters counters{};  // in base units
    Levels levels{};
  };
  struct Socket {
    std::unique_ptr<Counters>
        last;                       // counted already; 0 of one that was born while others were watched. Null of others
    std::uint32_t asked_about = 0;  // its inode, then
    std::uint32_t look = 0;         // the last one that saw it
    std::uint32_t usual_look = 0;   // the last usual one when it was seen
    std::uint32_t chosen_look = 0;  // the last usual look that chose it to be read until the next one
    std::uint32_t segments = 0;     // at the last usual look, wrapping
    std::uint32_t peer = kOthers;
    bool born = false;
    bool settled = false;  // seen by two usual looks as the job's
  };
  /// A socket of the job in a look at all.
  struct Candidate {
    Socket* socket;
    Known known;
    std::uint32_t segments;  // since the last look at all
  };
  struct Stranger {
    Key key;
    std::uint32_t inode;
    IpAddress peer;
    TcpSocketId id;
    Seen seen;
  };
  struct Peer {
    IpAddress address{};
    std::uint32_t row = kOthers;
    std::int64_t moved = 0;  // bytes
    Sums now;                // sums of this look, to be added to its row
    Chosen chosen;           // by the last look at all
  };

  static Seen read(std::span<const std::byte> info);
  /// Whether this look is one at all sockets.
  [[nodiscard]] bool sees_all() const noexcept { return look_ == Look::usual || look_ == Look::anew; }
  /// Whether a connection that it does not see may have ended.
  [[nodiscard]] bool ends_some() const noexcept { return sees_all() || look_ == Look::same; }
  void remember(Socket& socket, const Known& identity, const Seen& seen);
  void own(Socket& socket, const IpAddress& address, const Seen& seen);
  void take(Socket& socket, const Seen& seen);
  [[nodiscard]] std::uint32_t peer_at(const IpAddress& address);
  void close_unseen();
  void give_slots();
  void sum_rows();
  void choose_known();

  std::vector<std::uint32_t> inodes_;
  std::unordered_map<Key, Socket, KeyHash> sockets_;
  std::vector<Stranger> strangers_;
  std::vector<Candidate> candidates_;
  std::vector<Known> known_;
  Chosen chosen_;
  std::size_t awaited_ = 0;     // see awaits_some()
  std::vector<Peer> peers_{1};  // the first one stands for those that are not counted one by one
  std::unordered_map<IpAddress, std::uint32_t, AddressHash> by_address_;
  std::vector<Row> rows_{Row{.name = "others"}};
  std::vector<std::uint64_t> watched_;  // places that were looked at before, as a whole
  std::vector<std::uint64_t> entered_;  // in this look
  std::uint32_t looks_ = 0;
  std::uint32_t usual_looks_ = 0;
  Look look_ = Look::usual;
  bool overflowed_ = false;
};

}  // namespace reveal
