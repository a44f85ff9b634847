// features/internal/beside.h — whether declared objects fit those they refer to.
#pragma once

#include "storage/objects.h"

namespace falaj::features {

// What a FeatureView expects of its columns, and computes from them, fits their types. FJ-3050.
Status view_beside_its_source(const storage::Object& object, const storage::FindObject& find);

// Every feature and key that a FeatureService names stands in its view (FJ-2003), no two have one
// name (FJ-3005), and what it computes fits (FJ-3050).
Status service_beside_its_views(const storage::Object& object, const storage::FindObject& find);

// The label and every key that the service's views need stand in the label view, and split.by is
// one of those keys. FJ-2003; FJ-1006 for a label that is no number. A spine from a file is looked
// at when it comes.
Status set_beside_its_service(const storage::Object& object, const storage::FindObject& find);

}  // namespace falaj::features
