// Files that appear whole or not at all: full disks, signals in the middle, links, permissions, pipes.
#include "report/output_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace cplab {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "cplab_output_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = name;
    fs::permissions(path, fs::perms::all);
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(path)) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  fs::path path;
};

using Names = std::vector<std::string>;

std::string text_in(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

void write_whole(const std::string& file, const std::string& text) {
  OutputFile output(file);
  output.stream() << text;
  output.commit();
}

// What an action throws, "" for nothing.
template <class Error = std::runtime_error>
std::string thrown(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A process that does this and exits with what it returns; its status as waitpid gives it.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_CASE("a file has its name once it is complete, and not before") {
  const Folder folder;
  const std::string big(1'000'000, 'x');
  put(folder / "a", "old");
  {
    OutputFile file(folder / "a");
    file.stream() << big;
    file.finish();
    CHECK(text_in(folder / "a") == "old");
    CHECK(folder.names().size() == 2);
    file.commit();
    CHECK(text_in(folder / "a") == big);
    CHECK(folder.names() == Names{"a"});
  }
  CHECK(text_in(folder / "a") == big);
  {
    OutputFile given_up(folder / "a");
    given_up.stream() << "half";
    OutputFile fresh(folder / "b");
    fresh.stream() << "half";
  }
  CHECK(text_in(folder / "a") == big);
  CHECK(folder.names() == Names{"a"});
  write_whole(folder / "empty", "");
  CHECK(fs::file_size(folder / "empty") == 0);
}

TEST_CASE("a full disk leaves the old file and names the path and the reason") {
  const Folder folder;
  put(folder / "a", "old");
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    for (const std::size_t size : {std::size_t{100'001}, std::size_t{3'000'000}}) {
      const std::string message =
          thrown<OutputError>([&] { write_whole(folder / "a", std::string(size, 'x')); });
      if (message != (folder / "a") + ": cannot be written: File too large") return 1;
    }
    return 0;
  });
  CHECK(status == 0);
  CHECK(text_in(folder / "a") == "old");
  CHECK(folder.names() == Names{"a"});
  CHECK(thrown<OutputError>([] { write_whole("/dev/full", "x"); }) ==
        "/dev/full: cannot be written: No space left on device");
}

TEST_CASE("a set of files appears together") {
  const Folder folder;
  put(folder / "1", "old");
  {
    OutputSet files;
    files.open(folder / "1") << "new";
    files.open(folder / "2") << "new";
    CHECK(text_in(folder / "1") == "old");
    CHECK_FALSE(fs::exists(folder / "2"));
    files.commit();
  }
  CHECK(text_in(folder / "1") == "new");
  CHECK(text_in(folder / "2") == "new");
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return thrown<OutputError>([&] {
             OutputSet files;
             files.open(folder / "1") << "newer";
             files.open(folder / "2") << std::string(2000, 'x');  // does not fit
             files.open(folder / "3") << "new";
             files.commit();
           })
        .empty();
  });
  CHECK(status == 0);
  CHECK(text_in(folder / "1") == "new");
  CHECK(text_in(folder / "2") == "new");
  CHECK(folder.names() == Names{"1", "2"});
}

// In the middle of a file, and between the files of a set.
TEST_CASE("a signal leaves the old file and no temporary one, and is what ended the program") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    CAPTURE(number);
    const Folder folder;
    put(folder / "a", "old");
    const int status = in_child([&] {
      const rlimit no_core = {0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      std::signal(number, SIG_DFL);
      end_cleanly_on_signals();
      OutputFile file(folder / "a");
      file.stream() << std::string(200'000, 'x');
      OutputSet set;
      set.open(folder / "b") << "x";
      set.open(folder / "c") << "x";
      if (folder.names().size() != 4) return 1;
      std::raise(number);
      return 2;
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
    CHECK(text_in(folder / "a") == "old");
    CHECK(folder.names() == Names{"a"});
  }
}

TEST_CASE("a signal while files get their names waits until all have them") {
  const Folder folder;
  const int status = in_child([&] {
    end_cleanly_on_signals();
    OutputFile a(folder / "a"), b(folder / "b"), other(folder / "other");
    a.stream() << "x";
    b.stream() << "x";
    {
      const HoldSignals hold;
      a.commit();
      std::raise(SIGTERM);
      b.commit();
    }
    return 1;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK(folder.names() == Names{"a", "b"});
}

TEST_CASE("a signal that is ignored stays ignored") {
  const Folder folder;
  const int status = in_child([&] {
    std::signal(SIGHUP, SIG_IGN);  // nohup
    end_cleanly_on_signals();
    OutputFile file(folder / "a");
    std::raise(SIGHUP);
    file.stream() << "x";
    file.commit();
    return 0;
  });
  CHECK(status == 0);
  CHECK(folder.names() == Names{"a"});
}

TEST_CASE("links stay links and permissions stay as they were") {
  const Folder folder;
  fs::create_directory(folder / "deep");
  put(folder / "deep/real", "old");
  fs::permissions(folder / "deep/real", static_cast<fs::perms>(0640));
  fs::create_symlink("deep/real", folder / "link");
  fs::create_symlink("link", folder / "link of link");
  fs::create_symlink("deep/not yet", folder / "ahead");
  write_whole(folder / "link of link", "new");
  write_whole(folder / "ahead", "first");
  CHECK(text_in(folder / "deep/real") == "new");
  CHECK(text_in(folder / "deep/not yet") == "first");
  for (const char* link : {"link", "link of link", "ahead"}) CHECK(fs::is_symlink(folder / link));
  CHECK(fs::status(folder / "deep/real").permissions() == static_cast<fs::perms>(0640));
  CHECK(try_output_file(folder / "ahead") == fs::canonical(folder / "deep/not yet").string());

  const mode_t before = ::umask(027);
  write_whole(folder / "fresh", "x");
  ::umask(before);
  CHECK(fs::status(folder / "fresh").permissions() == static_cast<fs::perms>(0640));

  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  CHECK(thrown([&] { try_output_file(folder / "a"); }).find("cannot be written: Too many levels") !=
        std::string::npos);
}

TEST_CASE("what cannot be replaced is written as it is") {
  const Folder folder;
  write_whole("/dev/null", "x");
  CHECK(fs::is_character_file("/dev/null"));
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(try_output_file(folder / "fifo").empty());  // and nobody need read it yet
  const int status = in_child([&] {
    const pid_t reader = ::fork();
    if (reader == 0) ::_exit(text_in(folder / "fifo") == "through" ? 0 : 1);
    write_whole(folder / "fifo", "through");
    int code = 1;
    ::waitpid(reader, &code, 0);
    return code == 0 ? 0 : 1;
  });
  CHECK(status == 0);
  CHECK(fs::is_fifo(folder / "fifo"));

  // An open file, by its descriptor: behind what is there, and no other file in its place.
  const int descriptor = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(descriptor >= 0);
  REQUIRE(::write(descriptor, "before ", 7) == 7);
  const auto inode = [&] {
    struct stat status_of = {};
    ::stat((folder / "log").c_str(), &status_of);
    return status_of.st_ino;
  };
  const auto number = inode();
  for (const std::string root : {"/dev/fd/", "/proc/self/fd/"}) {
    const std::string name = root + std::to_string(descriptor);
    CHECK(try_output_file(name).empty());
    write_whole(name, "x");
  }
  ::close(descriptor);
  CHECK(text_in(folder / "log") == "before xx");
  CHECK(inode() == number);
}

TEST_CASE("paths that cannot be written are told before the work, with the reason, and nothing is left") {
  const Folder folder;
  put(folder / "file", "x");
  fs::create_directory(folder / "sub");
  const auto file = [&](const std::string& path) { return thrown([&] { try_output_file(path); }); };
  const auto made = [&](const std::string& path) { return thrown([&] { try_output_folder(path); }); };
  CHECK(file(folder / "fresh").empty());
  CHECK(file(folder / "file").empty());
  CHECK(file(folder / "sub/../fresh").empty());
  CHECK(file(folder / "sub") == (folder / "sub") + ": cannot be written: it is a folder, not a file");
  CHECK(file(folder / "none/") == (folder / "none/") + ": cannot be written: it is a folder, not a file");
  CHECK(file(folder / "none/a") ==
        (folder / "none/a") + ": cannot be written: there is no folder " + (folder / "none"));
  CHECK(file(folder / "file/a").find("cannot be written: ") != std::string::npos);
  CHECK(file("").find("cannot be written: ") != std::string::npos);
  CHECK(file(folder / std::string(300, 'n')).find("File name too long") != std::string::npos);
  CHECK(made(folder / "new").empty());
  CHECK(made(folder / "new/and/deep").empty());
  CHECK(made(folder / "sub/").empty());
  CHECK(made(folder / "file") ==
        (folder / "file") + ": cannot be written: " + (folder / "file") + " is not a folder");
  CHECK(made(folder / "file/a").find("is not a folder") != std::string::npos);
  CHECK(folder.names() == Names{"file", "sub"});
}

TEST_CASE("another user's files and folders are refused before the work") {
  const Folder folder;
  put(folder / "theirs", "old");
  fs::permissions(folder / "theirs", static_cast<fs::perms>(0444));
  fs::create_directory(folder / "closed");
  put(folder / "closed/open", "old");
  fs::permissions(folder / "closed/open", static_cast<fs::perms>(0666));
  fs::permissions(folder / "closed", static_cast<fs::perms>(0555));
  const int status = in_child([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 9;
    const auto denied = [](const std::function<void()>& action) {
      return thrown(action).find("Permission denied") != std::string::npos;
    };
    if (!denied([&] { try_output_file(folder / "theirs"); })) return 1;
    if (!denied([&] { try_output_file(folder / "closed/new"); })) return 2;
    if (!denied([&] { try_output_file(folder / "closed/open"); })) return 3;  // no place beside it
    if (!denied([&] { try_output_folder(folder / "closed/new"); })) return 4;
    if (!denied([&] { write_whole(folder / "theirs", "new"); })) return 5;
    return 0;
  });
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(text_in(folder / "theirs") == "old");
  fs::permissions(folder / "closed", fs::perms::all);
}

}  // namespace
}  // namespace cplab
