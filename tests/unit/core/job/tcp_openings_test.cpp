#include "core/job/tcp_openings.h"

#include <gtest/gtest.h>

#include <string>

namespace reveal::tests::tcp_openings_test {
namespace {

constexpr std::string_view kSnmp =
    "Ip: Forwarding DefaultTTL\n"
    "Ip: 1 64\n"
    "Tcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens CurrEstab\n"
    "Tcp: 1 -1 4711 815 2\n"
    "Udp: InDatagrams\n"
    "Udp: 3\n";

TEST(TcpOpenings, AreFoundByName) {
  EXPECT_EQ(tcp_openings(kSnmp), (TcpOpenings{.active = 4711, .passive = 815}));
}

TEST(TcpOpenings, AreUnknownWhereTheTextIsCutOffBeforeThem) {
  const std::size_t end = kSnmp.find(" 815") + 2;  // the first digit of a shorter number
  for (std::size_t size = 0; size < end; ++size) EXPECT_FALSE(tcp_openings(kSnmp.substr(0, size))) << size;
}

TEST(TcpOpenings, AreUnknownWhereOneIsNoNumber) {
  EXPECT_FALSE(tcp_openings("Tcp: ActiveOpens PassiveOpens\nTcp: 1 x\n"));
  EXPECT_FALSE(tcp_openings("Tcp: ActiveOpens\nTcp: 1 2\n"));
  EXPECT_FALSE(tcp_openings("Tcp: ActiveOpens PassiveOpens\nUdp: 1 2\n"));
}

}  // namespace
}  // namespace reveal::tests::tcp_openings_test
