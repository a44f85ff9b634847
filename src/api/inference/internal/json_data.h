// How JSON lists become tensors and tensors JSON lists: shared by the dialects of this folder.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "serving/datatypes.h"
#include "serving/runtime.h"

namespace falaj::api {

inline constexpr int kNestingMax = 100;

// A text from outside as messages show it.
std::string in_quotes(std::string_view text);

// Appends the elements of `data`, flat or nested (to 100 levels), to `out` as a tensor of `type`
// holds them; gives their number. BOOL takes true and false, integers take integers in range,
// floats take numbers and null for a missing value (NaN), BYTES takes texts. kInvalidArgument names
// the input and the element that is wrong; FP16 and BF16 have no JSON form.
Result<std::size_t> append_json_data(simdjson::dom::element data, serving::Datatype type,
                                     std::string_view input, std::string& out);

// Appends the tensor's elements as a list: flat, or nested as its shape says. Numbers are in the
// shortest form that reads back to the same bits. kInvalidArgument for what JSON cannot carry (NaN,
// infinity, half precision, bytes that are no UTF-8): the message says to ask for binary data.
enum class ListForm : std::uint8_t { kFlat, kNested };
Status append_json_list(std::string& out, const serving::Tensor& tensor, ListForm form);

// The document's object, valid until the thread's next call: its parser keeps its buffers, so that
// small requests allocate nothing for it. FJ-1001 when the text is no JSON, FJ-1009 when it is over
// 16 MiB (it costs about ten times that while it is read), kInvalidArgument when it is no object;
// after an error there is nothing to forget.
Result<simdjson::dom::object> parse_object(std::string_view json);
// Gives the buffers back if they grew large. After the last use of what parse_object() gave.
void forget_object();
// For how large a text this thread's parser has kept its buffers.
std::size_t kept_json_bytes();

}  // namespace falaj::api
