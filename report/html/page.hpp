// A page: one HTML file with style, scripts and data inside, which needs no network.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/html/timeline_data.hpp"
#include "report/html/writer.hpp"
#include "report/results.hpp"

namespace cplab {

// What stands large at the top.
struct PageFact {
  std::string name;
  Shown shown;
  std::string note = {};  // beneath, small
  std::string css = {};   // "good", "bad"
};

class HtmlPage {
 public:
  // Writes everything up to the facts. `command`: "simulate"; `title` and the `lead` beneath say of what.
  HtmlPage(std::ostream& out, std::string_view command, std::string_view title, std::string_view lead);

  HtmlWriter& html() { return html_; }
  void answer(std::string_view sentence);  // large, beneath the title
  void facts(const std::vector<PageFact>&);
  void begin_section(std::string_view id, std::string_view heading);
  void end_section();
  void words(std::string_view id, std::string_view heading, const std::vector<std::string>&);  // a list
  // A section with the drawing, its tools and its legend; what is left out is said beneath.
  void timeline(const TimelineDrawing&);
  // A field that keeps the rows of a table that hold its words.
  void filter(std::string_view table_id);
  // The rest: versions, what the command line gave, the JSON result that `write_json` writes, the scripts.
  void finish(const Versions&, const std::optional<Given>&,
              const std::function<void(std::ostream&)>& write_json);

 private:
  HtmlWriter html_;
  std::string timeline_json_;
};

}  // namespace cplab
