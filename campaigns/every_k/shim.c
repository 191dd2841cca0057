/* Preloaded: counts what a process does to files below a folder, and lets the k-th of it fail.

   Armed by every_k_arm() in the process itself, so that it costs nothing elsewhere. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { COMMIT, FSYNC, RENAME, WRITE, LOCK, KINDS };

static char root[PATH_MAX];
static size_t root_length;
static long counts[KINDS];
static int fault_kind = -1, fault_error, fault_lasts;
static long fault_at;

/* error: 0 kills; lasts: every one from the k-th on. */
void every_k_arm(const char *folder, int kind, long k, int error, int lasts) {
  snprintf(root, sizeof root, *folder ? "%s/" : "", folder);
  memset(counts, 0, sizeof counts);
  fault_kind = kind, fault_at = k, fault_error = error, fault_lasts = lasts;
  root_length = strlen(root);
}

long every_k_count(int kind) { return counts[kind]; }

static int fails(int kind) {
  long now = ++counts[kind];
  if (kind != fault_kind || now < fault_at || (now > fault_at && !fault_lasts)) return 0;
  if (fault_error == 0) kill(getpid(), SIGKILL), pause();
  errno = fault_error;
  return 1;
}

static int is_below(const char *path) {
  char full[PATH_MAX];
  if (root_length == 0 || path == NULL) return 0;
  if (path[0] != '/') {
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) == NULL) return 0;
    if (snprintf(full, sizeof full, "%s/%s", here, path) >= (int)sizeof full) return 0;
    path = full;
  }
  return strncmp(path, root, root_length) == 0;
}

static int is_mine(int fd) {
  char link[64], path[PATH_MAX];
  if (root_length == 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return strncmp(path, root, root_length) == 0;
}

#define REAL(name) ((__typeof__(&name))next(#name))
static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

#define ON_FD(type, name, parameters, arguments)                     \
  type name parameters {                                             \
    if (is_mine(fd) && fails(WRITE)) return -1;                      \
    return REAL(name) arguments;                                     \
  }
ON_FD(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
ON_FD(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FD(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
ON_FD(int, ftruncate, (int fd, off_t size), (fd, size))
ON_FD(int, ftruncate64, (int fd, off64_t size), (fd, size))

int posix_fallocate(int fd, off_t at, off_t size) {
  if (is_mine(fd) && fails(WRITE)) return errno;
  return REAL(posix_fallocate)(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
  if (is_mine(fd) && fails(WRITE)) return errno;
  return REAL(posix_fallocate64)(fd, at, size);
}

static int sync_fails(int fd) {
  if (!is_mine(fd)) return 0;
  int failed = fails(FSYNC);
  return fails(WRITE) || failed;
}
int fsync(int fd) { return sync_fails(fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return sync_fails(fd) ? -1 : REAL(fdatasync)(fd); }

static int rename_fails(const char *to) {
  if (!is_below(to)) return 0;
  int failed = fails(RENAME);
  return fails(WRITE) || failed;
}
int rename(const char *from, const char *to) {
  return rename_fails(to) ? -1 : REAL(rename)(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
  return rename_fails(to) ? -1 : REAL(renameat)(a, from, b, to);
}

/* With a rollback journal, SQLite commits by the removal of its file. */
static int unlink_fails(const char *path) {
  if (!is_below(path)) return 0;
  const char *dash = strrchr(path, '-');
  int failed = dash != NULL && strcmp(dash, "-journal") == 0 && fails(COMMIT);
  return fails(WRITE) || failed;
}
int unlink(const char *path) { return unlink_fails(path) ? -1 : REAL(unlink)(path); }
int unlinkat(int folder, const char *path, int flags) {
  return unlink_fails(path) ? -1 : REAL(unlinkat)(folder, path, flags);
}

int mkdir(const char *path, mode_t mode) {
  return is_below(path) && fails(WRITE) ? -1 : REAL(mkdir)(path, mode);
}

static int open_fails(const char *path, int flags) {
  return (flags & O_CREAT) && is_below(path) && access(path, F_OK) != 0 && fails(WRITE);
}
static mode_t mode_of(int flags, va_list rest) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}
#define OPEN(name)                                                   \
  int name(const char *path, int flags, ...) {                       \
    va_list rest;                                                    \
    va_start(rest, flags);                                           \
    mode_t mode = mode_of(flags, rest);                              \
    va_end(rest);                                                    \
    return open_fails(path, flags) ? -1 : REAL(name)(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define FCNTL(name)                                                  \
  int name(int fd, int command, ...) {                               \
    va_list rest;                                                    \
    va_start(rest, command);                                         \
    void *value = va_arg(rest, void *);                              \
    va_end(rest);                                                    \
    if (command == F_SETLK && ((struct flock *)value)->l_type != F_UNLCK && is_mine(fd) && \
        fails(LOCK))                                                 \
      return -1;                                                     \
    return REAL(name)(fd, command, value);                           \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

/* SQLite waits for a lock by a count of sleeps: without them a busy database is busy at once. */
int usleep(useconds_t time) { return root_length ? 0 : REAL(usleep)(time); }
