#include "postproc/telemetry/call_facts.h"

#include <gtest/gtest.h>

namespace reveal::tests::call_facts_test {
namespace {

TEST(CallInstance, NamesAProcessAndAFunction) {
  const CallInstance call = call_instance("rank0/ncclAllReduce");
  EXPECT_EQ(call.process, "rank0");
  EXPECT_EQ(call.function, "ncclAllReduce");
}

TEST(CallInstance, IsSplitAtItsLastSlash) {
  const CallInstance call = call_instance("a/b/c");
  EXPECT_EQ(call.process, "a/b");
  EXPECT_EQ(call.function, "c");
}

TEST(CallInstance, MayNameNoProcess) {
  const CallInstance call = call_instance("ncclAllReduce");
  EXPECT_EQ(call.process, "");
  EXPECT_EQ(call.function, "ncclAllReduce");
}

}  // namespace
}  // namespace reveal::tests::call_facts_test
