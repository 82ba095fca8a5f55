#include "core/kernel_text/ethtool.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace reveal {
namespace {

/// One request to a driver; the layout is that of <linux/ethtool.h>.
bool query_driver(int socket, const std::string& interface, void* request) {
  ifreq command{};
  if (interface.size() >= sizeof(command.ifr_name)) return false;
  std::memcpy(command.ifr_name, interface.data(), interface.size());
  command.ifr_data = static_cast<char*>(request);
  return ::ioctl(socket, SIOCETHTOOL, &command) == 0;
}

template <typename Head>
std::vector<std::byte> with_head(const Head& head, std::size_t size) {
  std::vector<std::byte> buffer(sizeof(Head) + size);
  std::memcpy(buffer.data(), &head, sizeof(Head));
  return buffer;
}

}  // namespace

std::string driver_statistics(int socket, const std::string& interface) {
  constexpr std::uint32_t kMostStatistics = 65536;
  ethtool_sset_info set{};
  set.cmd = ETHTOOL_GSSET_INFO;
  set.sset_mask = 1ULL << ETH_SS_STATS;
  std::vector<std::byte> size = with_head(set, sizeof(std::uint32_t));
  if (!query_driver(socket, interface, size.data())) return "";
  std::uint32_t count = 0;
  std::memcpy(&count, size.data() + sizeof(set), sizeof(count));
  if (count == 0 || count > kMostStatistics) return "";
  // The kernel writes as many as there are, also if there are more of them by now: queues are added at any time.
  const std::size_t room = 2 * std::size_t{count} + 1024;
  ethtool_gstrings strings{};
  strings.cmd = ETHTOOL_GSTRINGS;
  strings.string_set = ETH_SS_STATS;
  strings.len = count;
  std::vector<std::byte> names = with_head(strings, room * ETH_GSTRING_LEN);
  ethtool_stats statistics{};
  statistics.cmd = ETHTOOL_GSTATS;
  statistics.n_stats = count;
  std::vector<std::byte> values = with_head(statistics, room * sizeof(std::uint64_t));
  if (!query_driver(socket, interface, names.data()) || !query_driver(socket, interface, values.data())) return "";
  std::memcpy(&strings, names.data(), sizeof(strings));
  std::memcpy(&statistics, values.data(), sizeof(statistics));
  if (strings.len != statistics.n_stats || strings.len > room) return "";  // changed in between
  std::string text;
  for (std::size_t i = 0; i < strings.len; ++i) {
    const char* name = reinterpret_cast<const char*>(names.data()) + sizeof(strings) + i * ETH_GSTRING_LEN;
    std::uint64_t value = 0;
    std::memcpy(&value, values.data() + sizeof(statistics) + i * sizeof(value), sizeof(value));
    text.append(name, ::strnlen(name, ETH_GSTRING_LEN)).append(": ").append(std::to_string(value)).append(1, '\n');
  }
  return text;
}

std::optional<CardRings> card_rings(int socket, const std::string& interface) {
  ethtool_ringparam rings{};
  rings.cmd = ETHTOOL_GRINGPARAM;
  if (!query_driver(socket, interface, &rings)) return std::nullopt;
  return CardRings{{rings.rx_pending, rings.rx_max_pending}, {rings.tx_pending, rings.tx_max_pending}};
}

std::optional<std::int64_t> link_speed(int socket, const std::string& interface) {
  // The first answer is only how many words each of the three masks has, negative. The older ETHTOOL_GSET has no such
  // masks, and the kernel logs a warning for fast cards.
  constexpr std::size_t kMostWords = 127;
  ethtool_link_settings settings{};
  settings.cmd = ETHTOOL_GLINKSETTINGS;
  std::vector<std::byte> answer = with_head(settings, 3 * kMostWords * sizeof(std::uint32_t));
  if (!query_driver(socket, interface, answer.data())) return std::nullopt;
  std::memcpy(&settings, answer.data(), sizeof(settings));
  if (settings.link_mode_masks_nwords >= 0) return std::nullopt;
  ethtool_link_settings request{};
  request.cmd = ETHTOOL_GLINKSETTINGS;
  request.link_mode_masks_nwords = static_cast<std::int8_t>(-settings.link_mode_masks_nwords);
  std::memcpy(answer.data(), &request, sizeof(request));
  if (!query_driver(socket, interface, answer.data())) return std::nullopt;
  std::memcpy(&settings, answer.data(), sizeof(settings));
  if (settings.speed == 0 || settings.speed == static_cast<std::uint32_t>(SPEED_UNKNOWN)) return std::nullopt;
  return settings.speed;
}

}  // namespace reveal
