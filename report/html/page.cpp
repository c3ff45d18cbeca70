// See page.hpp. Style and scripts are the files page.css, table.js, decode.js and timeline.js beside this
// one, which CMake puts into NAME_asset.inc.
#include "report/html/page.hpp"

#include <fmt/format.h>

#include <ostream>
#include <sstream>

namespace cplab {
namespace {

constexpr std::string_view page_css = {
#include "page_css_asset.inc"
};
constexpr std::string_view table_js = {
#include "table_js_asset.inc"
};
constexpr std::string_view decode_js = {
#include "decode_js_asset.inc"
};
constexpr std::string_view timeline_js = {
#include "timeline_js_asset.inc"
};

constexpr std::string_view timeline_tools = R"html(<div class="tools">
<button type="button" id="zoom-in" aria-label="zoom in">+</button>
<button type="button" id="zoom-out" aria-label="zoom out">&minus;</button>
<button type="button" id="zoom-all">all</button>
<label>search <input id="search" type="search" placeholder="3/forward/12, exchange, rank 5 ..." autocomplete="off"></label>
<output id="found"></output>
<label><input type="checkbox" id="chain" checked> critical path</label>
<output id="shown" class="quiet"></output>
</div>
<div id="picked" aria-live="polite" hidden></div>
<div class="drawing"><canvas id="timeline" tabindex="0" role="img" aria-label="operations of every rank over time"></canvas>
<canvas id="memory" role="img" aria-label="memory of one rank over time"></canvas></div>
<div id="tip" role="tooltip" hidden></div>
<noscript><p>The timeline needs JavaScript; the figures and tables do not.</p></noscript>
)html";

constexpr std::string_view timeline_keys =
    R"html(<p class="quiet">Drag to move, <kbd>Ctrl</kbd> and wheel or <kbd>+</kbd> <kbd>-</kbd> to zoom, <kbd>0</kbd> for all, <kbd>&larr;</kbd> <kbd>&rarr;</kbd> to move, <kbd>/</kbd> to search, <kbd>Enter</kbd> or <kbd>n</kbd> for the next hit, <kbd>c</kbd> for the critical path, <kbd>Esc</kbd> to let go; in the drawing <kbd>&uarr;</kbd> <kbd>&darr;</kbd> choose whose memory is shown. A click on a rank's name opens or closes it, a double click on an operation zooms to it.</p>
)html";

void write_legend(HtmlWriter& html, bool chain, bool memory) {
  html.open("ul", {{"class", "legend"}});
  const auto entry = [&](std::string_view css, std::string_view text) {
    html.raw("<li>");
    html.open("i", {{"class", css}});
    html.close();
    html.text(text);
    html.raw("</li>");
  };
  entry("swatch attention", "attention");
  entry("swatch attention-back", "its backward");
  entry("swatch kernel", "other kernels");
  entry("swatch communication", "communication");
  entry("swatch hatched", "waits for a peer");
  if (chain) entry("swatch chain", "critical path");
  if (memory)
    for (const Category category :
         {Category::input, Category::output, Category::saved, Category::working, Category::workspace})
      entry("swatch memory-" + std::string(name(category)), std::string(name(category)) + " memory");
  html.close();
}

void write_given(HtmlWriter& html, const Given& given) {
  html.open("ul", {{"class", "words"}});
  if (!given.scenario.empty()) html.element("li", "scenario " + given.scenario);
  for (const std::string& set : given.set) html.element("li", "--set " + set);
  for (const std::string& unset : given.unset) html.element("li", "--unset " + unset);
  for (const auto& [option, value] : given.options)
    html.element("li", "--" + option + (value.empty() ? "" : " " + value));
  for (const GivenFile& file : given.files)
    html.element("li", fmt::format("{} {}, SHA-256 {}", file.option, file.file, file.sha256));
  html.close();
}

}  // namespace

HtmlPage::HtmlPage(std::ostream& out, std::string_view command, std::string_view title, std::string_view lead)
    : html_(out) {
  html_.raw(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n");
  html_.element("title", fmt::format("cplab {}: {}", command, title));
  html_.raw("<style>\n");
  html_.raw(page_css);
  html_.raw("</style>\n</head>\n<body>\n<header>\n");
  html_.element("p", fmt::format("cplab {}", command), {{"class", "command"}});
  html_.element("h1", title);
  html_.element("p", lead, {{"class", "lead"}});
  html_.raw("</header>\n<main>\n");
}

void HtmlPage::answer(std::string_view sentence) {
  html_.element("p", sentence, {{"class", "answer"}});
}

void HtmlPage::facts(const std::vector<PageFact>& facts) {
  html_.open("ul", {{"class", "facts"}});
  for (const PageFact& fact : facts) {
    html_.open("li", {{"class", fact.css}});
    html_.element("span", fact.name);
    html_.open("strong");
    html_.value(fact.shown);
    html_.close();
    if (!fact.note.empty()) html_.element("small", fact.note);
    html_.close();
  }
  html_.close();
}

void HtmlPage::begin_section(std::string_view id, std::string_view heading) {
  html_.open("section", {{"id", id}});
  html_.element("h2", heading);
}

void HtmlPage::end_section() {
  html_.close();
}

void HtmlPage::words(std::string_view id, std::string_view heading,
                     const std::vector<std::string>& sentences) {
  if (sentences.empty()) return;
  begin_section(id, heading);
  html_.open("ul", {{"class", "words"}});
  for (const std::string& sentence : sentences) html_.element("li", sentence);
  html_.close();
  end_section();
}

void HtmlPage::timeline(const TimelineDrawing& drawing) {
  const EncodedTimeline encoded = encode(drawing);
  timeline_json_ = encoded.json;
  begin_section("time", "Timeline");
  html_.raw(timeline_tools);
  bool memory = false;
  for (std::size_t row = 0; row < drawing.row_count && !memory; ++row)
    memory = drawing.is_open(row) && !drawing.make_row(row).memory.empty();
  write_legend(html_, !drawing.chain.empty(), memory);
  if (!drawing.words.empty()) html_.element("p", drawing.words, {{"class", "quiet"}});
  for (const std::string& sentence : encoded.left_out)
    html_.element("p", "Left out: " + sentence + ".", {{"class", "quiet left-out"}});
  if (drawing.chain.empty() && !drawing.no_chain.empty())
    html_.element("p", drawing.no_chain, {{"class", "quiet"}});
  html_.raw(timeline_keys);
  end_section();
}

void HtmlPage::filter(std::string_view table_id) {
  html_.open("p", {{"class", "filter"}});
  html_.open("label");
  html_.text("rows with the words ");
  html_.raw(fmt::format("<input type=\"search\" data-filters=\"{}\">", html_escaped(table_id)));
  html_.close();
  html_.close();
}

void HtmlPage::finish(const Versions& versions, const std::optional<Given>& given,
                      const std::function<void(std::ostream&)>& write_json) {
  html_.raw("</main>\n<footer>\n");
  std::string made;
  for (const auto& [what, version] : versions)
    made += fmt::format("{}{} {}", made.empty() ? "" : ", ", what, version);
  if (given) {
    html_.raw("<details><summary>What this was made from</summary>");
    write_given(html_, *given);
    html_.raw("</details>\n");
  }
  html_.element(
      "p",
      made + ". This file holds all that it shows and the result as JSON (the element with the id result).");
  html_.raw("</footer>\n<script type=\"application/json\" id=\"result\">");
  std::ostringstream json;
  write_json(json);
  html_.raw(safe_in_script(json.str()));
  html_.raw("</script>\n");
  if (!timeline_json_.empty()) {
    html_.raw("<script type=\"application/json\" id=\"timeline-data\">");
    html_.raw(timeline_json_);
    html_.raw("</script>\n");
  }
  for (const std::string_view script : {table_js, decode_js, timeline_js}) {
    if (timeline_json_.empty() && script != table_js) continue;
    html_.raw("<script>\n");
    html_.raw(script);
    html_.raw("</script>\n");
  }
  html_.raw("</body>\n</html>\n");
}

}  // namespace cplab
