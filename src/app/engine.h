// app/engine.h — what the server starts as processes of their own: training (with ONNX Runtime
// passed in), the audit signer, the warden of commands, and what images need.
#pragma once

#include <string>

namespace falaj::app {

// Reports on descriptor 3; the exit code is 0 when model and proof were written.
int run_train_engine();

// The audit signer: answers on descriptor 3 until the server closes it.
int run_sign_engine(const std::string& folder);

// The warden of the commands that outlive the server (exec/warden.h): goes to the background.
int run_warden_engine(const std::string& folder);

// Unpacks an image of a layout folder, named by its digest, into a folder that exists.
int run_unpack_engine(const std::string& layout, const std::string& digest,
                      const std::string& folder);

// Becomes the OCI runtime that runs the bundle in that folder.
int run_image_engine(const std::string& folder);

}  // namespace falaj::app
