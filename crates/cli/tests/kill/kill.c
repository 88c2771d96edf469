/* Preloaded into the program, this ends it with SIGKILL at a chosen place of its own work.
 *
 *   KILL_FILE    the end of the path of the file whose system calls are counted
 *   KILL_CALL    what is counted: `sync` (fdatasync) or `write` (write, pwrite)
 *   KILL_AT      the number of the call that is the last one, from 1
 *   KILL_AFTER   if set, it is carried out; else the process ends before it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_fdatasync)(int);
static const char *file, *call;
static long at = -1;
static int after;
static atomic_long calls;

__attribute__((constructor)) static void start(void) {
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    file = getenv("KILL_FILE");
    call = getenv("KILL_CALL");
    after = getenv("KILL_AFTER") != NULL;
    if (getenv("KILL_AT")) at = atol(getenv("KILL_AT"));
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Whether this is the call, of those on the file. */
static int last(int fd, const char *name) {
    char link[64], path[PATH_MAX];
    if (at < 0 || !file || !call || strcmp(call, name)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    size_t end = strlen(file);
    if (len < (ssize_t)end) return 0;
    path[len] = 0;
    return !strcmp(path + len - end, file) && atomic_fetch_add(&calls, 1) + 1 == at;
}

#define COUNTED(name, result, carry_out)   \
    int here = last(fd, name);             \
    if (here && !after) die();             \
    result done = carry_out;               \
    if (here) die();                       \
    return done

int fdatasync(int fd) { COUNTED("sync", int, real_fdatasync(fd)); }

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t offset) {
    COUNTED("write", ssize_t, real_pwrite(fd, bytes, count, offset));
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    return pwrite64(fd, bytes, count, offset);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    COUNTED("write", ssize_t, real_write(fd, bytes, count));
}
