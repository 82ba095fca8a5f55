#include "core/snapshot/snapshot.h"

#include <gtest/gtest.h>

namespace reveal {
namespace {

TEST(Environment, KeepsExactNamesOnly) {
  using namespace std::literals;
  const auto environ = "OMP_NUM_THREADS=4\0SECRET_TOKEN=x\0OMP_NUM_THREADS_=5\0HF_TOKEN=y\0NCCL_ALGO=Ring\0"sv;
  const Snapshot kept = allowed_environment(environ);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].second, "4");
  EXPECT_EQ(kept[1].first, "NCCL_ALGO");
}

}  // namespace
}  // namespace reveal
