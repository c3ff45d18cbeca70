// A page for each kind of result: the answer first, its reasons beneath. Numbers that the JSON result has
// name their place in it.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "report/chain.hpp"
#include "report/compare.hpp"
#include "report/compare_spans.hpp"
#include "report/html/page_title.hpp"
#include "report/results.hpp"
#include "report/sweep.hpp"
#include "report/timeline_output.hpp"

namespace cplab {

// `chain` is Simulation::critical_steps; empty: it is said that it is not known.
void write_page(std::ostream&, const PageTitle&, const SimulateReport&, const TimelineResult&,
                std::span<const ChainStep> chain);
void write_page(std::ostream&, const PageTitle&, const RunReport&, const TimelineResult&);
void write_page(std::ostream&, const PageTitle&, const CheckReport&);
void write_page(std::ostream&, const PageTitle&, const CompareReport&, const ResultFile& predicted,
                const ResultFile& measured);
void write_page(std::ostream&, const PageTitle&, const SpanComparison&, const ResultFile& predicted,
                const SpanFile& trace);
void write_page(std::ostream&, const PageTitle&, const SweepReport&);

}  // namespace cplab
