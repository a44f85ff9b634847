#include "security/signing/model_format.h"

#include <gtest/gtest.h>

#include <string>

namespace falaj::security {
namespace {

using namespace std::string_literals;

std::string reason(const std::string& bytes) {
  const auto format = recognise_model(bytes);
  if (format.ok()) return "accepted as " + std::string(format_name(*format));
  EXPECT_EQ(format.error().id, ErrorId::kModelFormatRefused);
  return format.error().message;
}

TEST(ModelFormat, what_can_carry_code_is_refused_by_content) {
  EXPECT_NE(reason("\x80\x04\x95\x0f\0\0\0"s).find("pickle"), std::string::npos);
  EXPECT_NE(reason("\x80\x02}q\0."s).find("pickle"), std::string::npos);
  EXPECT_NE(reason("cos\nsystem\n(S'id'\ntR."s).find("pickle"), std::string::npos);
  EXPECT_NE(reason("(dp0\nS'a'\np1\ns."s).find("pickle"), std::string::npos);
  EXPECT_NE(reason("PK\x03\x04\x14\0\0\0"s).find("zip archive"), std::string::npos);
  EXPECT_NE(reason("\x89HDF\r\n\x1a\n"s).find("HDF5"), std::string::npos);
  EXPECT_NE(reason("\x1f\x8b\x08"s).find("gzip"), std::string::npos);
  EXPECT_NE(reason("\x78\x9c\x01"s).find("zlib"), std::string::npos);
  EXPECT_NE(reason("\x93NUMPY\x01\0"s).find("NumPy"), std::string::npos);
  EXPECT_NE(reason("GGUF\x03\0\0\0"s).find("GGUF"), std::string::npos);
  EXPECT_NE(reason("\x7f"
                   "ELF\x02"s)
                .find("program"),
            std::string::npos);
  EXPECT_NE(reason("#!/bin/sh\n"s).find("script"), std::string::npos);
  std::string tar(512, 'a');
  tar.replace(257, 5, "ustar");
  EXPECT_NE(reason(tar).find("tar archive"), std::string::npos);
  EXPECT_NE(reason(""), "accepted as onnx");
}

TEST(ModelFormat, texts_of_trees_are_accepted) {
  EXPECT_EQ(reason("tree\nversion=v4\nnum_class=1\n"), "accepted as lightgbm");
  EXPECT_EQ(reason(R"({"learner": {}, "version": [3, 2, 0]})"), "accepted as xgboost");
  EXPECT_NE(reason("tree\nversion=v4\n\0"s).find("no text"), std::string::npos);
  EXPECT_NE(reason(R"({"learner": {}, "version": [3], "__reduce__": 1})").find("'__reduce__'"),
            std::string::npos);
  EXPECT_NE(reason(R"({"a": 1})").find("no XGBoost model"), std::string::npos);
}

TEST(ModelFormat, the_smallest_onnx_is_recognised) {
  // ir_version 8; a graph whose only output is its input.
  EXPECT_EQ(reason("\x08\x08\x3a\x0a\x5a\x03\x0a\x01x\x62\x03\x0a\x01x"s), "accepted as onnx");
}

}  // namespace
}  // namespace falaj::security
