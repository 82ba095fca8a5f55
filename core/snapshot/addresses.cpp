// The node's addresses, so that a report can name the node behind an address that a connection leads to.
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>
#include <map>

#include "core/job/tcp_sockets.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::size_t kMostAddresses = 64;

/// Nothing for addresses that lead to no other node.
std::string address_text(const sockaddr* address) {
  IpAddress bytes{};
  constexpr std::size_t kIpv4At = 12;
  if (address != nullptr && address->sa_family == AF_INET) {
    sockaddr_in known{};
    std::memcpy(&known, address, sizeof known);
    bytes[kIpv4At - 2] = bytes[kIpv4At - 1] = 0xff;
    std::memcpy(bytes.data() + kIpv4At, &known.sin_addr, sizeof known.sin_addr);
    if (bytes[kIpv4At] == IN_LOOPBACKNET) return "";
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    sockaddr_in6 known{};
    std::memcpy(&known, address, sizeof known);
    if (IN6_IS_ADDR_LOOPBACK(&known.sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&known.sin6_addr)) return "";
    std::memcpy(bytes.data(), &known.sin6_addr, bytes.size());
  } else {
    return "";
  }
  return text_of(bytes);
}

/// "eth0 10.77.0.1 eth0 fd00::1 ..."
std::string addresses_now() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return "";
  std::string text;
  std::size_t count = 0;
  for (const ifaddrs* each = first; each != nullptr && count < kMostAddresses; each = each->ifa_next) {
    const std::string address = address_text(each->ifa_addr);
    if (address.empty()) continue;
    text += std::string(each->ifa_name) + ' ' + address + ' ';
    ++count;
  }
  ::freeifaddrs(first);
  return text;
}

}  // namespace

Snapshot interface_addresses(KernelTree& fs) {
  const std::string words = fs.fact("@addresses", [&fs] { return fs.live() ? addresses_now() : std::string(); });
  std::map<std::string, std::string> of_interface;
  std::string_view rest = words;
  for (std::string_view name = next_word(rest); !name.empty(); name = next_word(rest)) {
    std::string& list = of_interface[std::string(name)];
    list.append(list.empty() ? "" : " ").append(next_word(rest));
  }
  Snapshot facts;
  for (auto& [name, list] : of_interface) facts.emplace_back("address." + name, std::move(list));
  return facts;
}

}  // namespace reveal
