// Which cplab this is. Written by the build (cmake/version.cmake); nothing else recompiles at a commit.
#pragma once

namespace cplab {

// The release, such as "0.1.0": the version of the root CMakeLists.txt.
const char* version();

// The commit that was built, abbreviated; "-dirty" follows when tracked files differed from it;
// "unknown" when the tree was no git checkout or git was not there.
const char* commit();

}  // namespace cplab
