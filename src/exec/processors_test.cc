#include "exec/internal/processors.h"

#include <gtest/gtest.h>

namespace falaj::exec::internal {
namespace {

Processors two_nodes() { return Processors({{0, {0, 1, 4, 5}}, {1, {2, 3, 6, 7}}}); }

TEST(Processors, lists_are_read_and_written_as_the_kernel_does) {
  EXPECT_EQ(parse_cpu_list("0-2,5\n"), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(cpu_list({0, 1, 2, 5}), "0-2,5");
  EXPECT_EQ(cpu_list({}), "");
  EXPECT_TRUE(parse_cpu_list("").empty());
  EXPECT_TRUE(parse_cpu_list("x-y").empty());
  EXPECT_EQ(parse_cpu_list("7,0-999999999").size(), 4097u);
}

TEST(Processors, come_from_one_node_and_are_not_shared_while_others_are_idle) {
  Processors machine = two_nodes();
  const Binding first = machine.take(2);
  EXPECT_EQ(first.processor_list, "0-1");
  EXPECT_EQ(first.node_list, "0");
  const Binding whole = machine.take(4);
  EXPECT_EQ(whole.processor_list, "2-3,6-7") << "the node that has four idle ones";
  EXPECT_EQ(whole.node_list, "1");
  EXPECT_EQ(machine.take(2).processor_list, "4-5");
  EXPECT_EQ(machine.take(1).processor_list, "0") << "all are taken: the least used";
  machine.give_back(whole);
  EXPECT_EQ(machine.take(3).processor_list, "2-3,6");
}

TEST(Processors, come_from_the_node_that_is_named_if_it_has_so_many) {
  Processors machine = two_nodes();
  EXPECT_EQ(machine.take(2, 1).processor_list, "2-3") << "that node";
  EXPECT_EQ(machine.take(2, 1).processor_list, "6-7");
  EXPECT_EQ(machine.take(2, 9).processor_list, "0-1") << "there is none such";
  EXPECT_EQ(machine.take(6, 1).processors.size(), 6u) << "it has four";
}

TEST(Processors, a_small_one_fills_the_node_that_is_begun) {
  Processors machine = two_nodes();
  (void)machine.take(2);
  EXPECT_EQ(machine.take(1).node_list, "0");
  EXPECT_EQ(machine.take(4).node_list, "1");
}

TEST(Processors, more_than_a_node_has_come_from_several) {
  Processors machine = two_nodes();
  const Binding most = machine.take(6);
  EXPECT_EQ(most.processors.size(), 6u);
  EXPECT_EQ(most.node_list, "0-1");
  EXPECT_EQ(machine.take(100).processors.size(), 8u);
}

TEST(Processors, this_machine_has_some) {
  EXPECT_GE(Processors::of_this_machine().take(1).processors.size(), 1u);
}

}  // namespace
}  // namespace falaj::exec::internal
