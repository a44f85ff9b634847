// table/internal/csv.h — CSV (RFC 4180) in and out, without a library: every row that cannot be
// read must be reported with its line, its reason and its text, and reading goes on after it.
//
// Rules: a header line names the columns; \n or \r\n end a row; a cell in double quotes may hold
// commas, line breaks and doubled quotes; an empty cell is null (a quoted empty cell is the empty
// text in a string column). A row is at most 1 MiB. NUL and invalid UTF-8 make a row bad. After a
// row whose quotes do not match, reading resumes at the line after its first one.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "table/io.h"

namespace falaj::table {

// Fills at most `room` bytes at `to`; 0 means the end.
using ByteSource = std::function<Result<std::size_t>(char* to, std::size_t room)>;

Status read_csv(const ByteSource& source, const ReadOptions& options, const OnBatch& on_batch);
// From the first 64 KiB.
Result<Schema> infer_csv_schema(const ByteSource& source);
// Appends header and rows. Null is an empty cell, the empty text is `""`.
void append_csv(std::string& out, const Batch& batch);
void append_csv_header(std::string& out, const Schema& schema);
void append_csv_rows(std::string& out, const Batch& batch);

// `bytes` as text that is safe to print and to keep: NUL and bytes outside UTF-8 become \xNN; cut
// at 4 KiB.
std::string printable_row(std::string_view bytes);

}  // namespace falaj::table
