// The one main of every test executable: doctest's, and an error when a filter matches no case.
// CTest runs the cases of each file; doctest calls a filter that matches nothing a success, so a file whose
// name it does not find would pass without having run. With CPLAB_SHORT_TESTS in the environment cases whose
// names begin with "long" are left out, and a file may have no others; those that begin with "nightly" run
// with CPLAB_NIGHTLY_TESTS alone.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>

namespace {

unsigned cases_matched = 0;

struct MatchCounter : doctest::IReporter {
  explicit MatchCounter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_matched = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("match_counter", 1, MatchCounter);

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const bool short_ones = std::getenv("CPLAB_SHORT_TESTS") != nullptr;
  if (short_ones) context.addFilter("test-case-exclude", "long*");
  if (std::getenv("CPLAB_NIGHTLY_TESTS") == nullptr) context.addFilter("test-case-exclude", "nightly*");
  const int failed = context.run();
  if (context.shouldExit()) return failed;  // a query: list, help, version
  if (cases_matched == 0 && !short_ones) {
    std::cerr << "no test case matches the filter\n";
    return 1;
  }
  return failed;
}
