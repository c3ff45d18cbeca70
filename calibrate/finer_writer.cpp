// The finer tables of a hardware file as text; see hardware_writer.hpp.
#include "calibrate/finer_writer.hpp"

namespace cplab::measure {
namespace {

// A column of a table of points.
template <class Point, class Of>
auto column(const std::vector<Point>& points, Of of) {
  std::vector<std::decay_t<decltype(of(points.front()))>> values;
  for (const Point& point : points) values.push_back(of(point));
  return values;
}

void write_form(TomlText& out, const FormTable& form) {
  out.heading("[[form]]");
  out.key("class", std::string(name(form.kind)));
  out.key("variant", form.variant);
  out.key("dtype", std::string(name(form.dtype)));
  out.key("head_size", form.head_size);
  out.key("mask", form.causal ? "causal" : "full");
  if (form.window >= 0) out.key("window", form.window);
  out.key("write", std::string(name(form.write)));
  if (form.delta_inside) out.key("delta", "inside");
  if (form.rounded) out.key("dq", "rounded");
  if (form.row_runs != 1) out.key("row_runs", form.row_runs);
  out.list("batch", column(form.points, [](const FormPoint& p) { return p.batch; }));
  out.list("queries", column(form.points, [](const FormPoint& p) { return p.queries; }));
  out.list("keys", column(form.points, [](const FormPoint& p) { return p.keys; }));
  out.list("heads", column(form.points, [](const FormPoint& p) { return p.heads; }));
  out.list("kv_heads", column(form.points, [](const FormPoint& p) { return p.kv_heads; }));
  out.list("seconds", column(form.points, [](const FormPoint& p) { return p.seconds; }));
  write_origin(out, form.provenance);
}

void write_pieces(TomlText& out, const PiecesTable& table) {
  out.heading("[[pieces]]");
  out.key("kind", std::string(name(table.kind)));
  if (is_communication(table.kind)) out.key("transport", std::string(name(table.transport)));
  out.list("bytes", column(table.points, [](const PiecesPoint& p) { return p.bytes; }));
  out.list("pieces", column(table.points, [](const PiecesPoint& p) { return p.pieces; }));
  out.list("seconds", column(table.points, [](const PiecesPoint& p) { return p.seconds; }));
  write_origin(out, table.provenance);
}

void write_beside(TomlText& out, const BesideTable& table) {
  out.heading("[[beside]]");
  out.key("kind", std::string(name(table.kind)));
  out.key("transport", std::string(name(table.transport)));
  out.key("beside", std::string(name(table.beside)));
  out.list("bytes", column(table.points, [](const BesidePoint& p) { return p.bytes; }));
  out.list("alone_s", column(table.points, [](const BesidePoint& p) { return p.alone_s; }));
  out.list("beside_s", column(table.points, [](const BesidePoint& p) { return p.beside_s; }));
  write_origin(out, table.provenance);
}

void write_gemm(TomlText& out, const GemmTable& table) {
  out.heading("[[gemm]]");
  out.key("library", table.library);
  out.key("dtype", std::string(name(table.dtype)));
  out.list("m", column(table.points, [](const GemmPoint& p) { return p.m; }));
  out.list("n", column(table.points, [](const GemmPoint& p) { return p.n; }));
  out.list("k", column(table.points, [](const GemmPoint& p) { return p.k; }));
  out.list("seconds", column(table.points, [](const GemmPoint& p) { return p.seconds; }));
  write_origin(out, table.provenance);
}

}  // namespace

void write_origin(TomlText& out, const Provenance& from) {
  out.key("origin", std::string(name(from.origin)));
  if (from.origin == Origin::measured) {
    out.key("tool", from.tool);
    out.key("machine", from.machine);
    out.key("date", from.date);
    if (!from.source.empty()) out.key("source", from.source);
  } else {
    out.key("source", from.source);
  }
}

void write_finer_tables(TomlText& out, const FinerTables& finer) {
  for (const FormTable& form : finer.forms) write_form(out, form);
  for (const PiecesTable& table : finer.pieces) write_pieces(out, table);
  for (const BesideTable& table : finer.beside) write_beside(out, table);
  for (const LaunchCost& cost : finer.launches) {
    out.heading("[[launch]]");
    out.key("kind", std::string(name(cost.kind)));
    if (is_communication(cost.kind)) out.key("transport", std::string(name(cost.transport)));
    out.key("seconds", cost.seconds);
    write_origin(out, cost.provenance);
  }
  for (const GemmTable& table : finer.gemms) write_gemm(out, table);
  if (finer.cards.attend_s.empty()) return;
  out.heading("[cards]");
  out.list("attend_s", finer.cards.attend_s);
  write_origin(out, finer.cards.provenance);
}

}  // namespace cplab::measure
