// cli/batch/output_file.h — a file that is there whole or not at all, also after Ctrl-C.
#pragma once

#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "base/descriptor.h"

namespace falaj::cli::batch {

// Bytes go into ".NAME.PID.part" beside the file, for its owner only, and take its name at keep().
// Dropped before that, and when SIGINT, SIGTERM or SIGHUP ends the program, nothing remains; after
// SIGKILL the part does. One at a time in a process; one thread.
class OutputFile final : public ByteWriter {
 public:
  // FJ-1015 when it cannot be made there, or the name is a folder's.
  static Result<std::unique_ptr<OutputFile>> create(const std::string& path);
  ~OutputFile() override;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status append(std::string_view bytes) override;
  // Durable, and under its name in place of what was there. Call once, last.
  Status keep();

 private:
  OutputFile(std::string path, std::string part, Descriptor file);

  std::string path_;
  std::string part_;
  Descriptor file_;
};

}  // namespace falaj::cli::batch
