// Sections that pages of simulate and run have in common. Internal to report/html/.
#pragma once

#include <optional>
#include <vector>

#include "report/figures.hpp"
#include "report/html/page.hpp"
#include "report/timeline_output.hpp"
#include "report/variants.hpp"

namespace cplab {

PageFact peak_fact(const Figures&, const std::optional<Fit>&);
PageFact exposed_fact(const Figures&);
// Of every rank the time by what it does, and the numbers.
void write_rank_section(HtmlPage&, const Figures&);
// What is alive where the memory is largest.
void write_memory_section(HtmlPage&, const Figures&, const std::optional<Fit>&);
void write_variants_section(HtmlPage&, const std::vector<VariantFigures>&);
// All ranks of a plan under a clock; of many the worst, the median and the best are open.
TimelineDrawing drawing_of(const TimelineResult&, std::span<const ChainStep> chain, std::string no_chain);

}  // namespace cplab
