/* Preloaded into a child process, this keeps a second copy of a directory tree that holds only what
 * was truly made durable: file bytes when fsync or fdatasync returns, names when the directory is
 * synced. sync_file_range is not intercepted, because it promises nothing. What is in the copy when
 * the process is killed is what a power cut would have left, at worst.
 *
 *   SHIM_ROOT         the tree to watch
 *   SHIM_SHADOW       where to keep the copy: file-INODE and names-INODE
 *   SHIM_IGNORE_DATA  if set, fdatasync is not believed: the control that shows a cut is noticed
 *   SHIM_FAIL_SYNC    the number of the first fdatasync that fails (EIO), as do all syncs after it
 *   SHIM_FAIL_ALL     if set, every sync fails (EIO)
 *   SHIM_FULL         writes beyond this many bytes in all fail (ENOSPC)
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct range {
    ino_t ino;
    off_t start, end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *dirty;
static size_t dirty_len, dirty_cap;
static long written, datasyncs;
static int broken;

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static const char *root, *shadow;
static long fail_sync = -1, full = -1;
static int ignore_data;

__attribute__((constructor)) static void start(void) {
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    root = getenv("SHIM_ROOT");
    shadow = getenv("SHIM_SHADOW");
    ignore_data = getenv("SHIM_IGNORE_DATA") != NULL;
    if (getenv("SHIM_FAIL_SYNC")) fail_sync = atol(getenv("SHIM_FAIL_SYNC"));
    broken = getenv("SHIM_FAIL_ALL") != NULL;
    if (getenv("SHIM_FULL")) full = atol(getenv("SHIM_FULL"));
}

/* Whether the descriptor is a file or directory of the tree. */
static int watched(int fd, struct stat *st) {
    char link[64], path[PATH_MAX];
    if (!root || fstat(fd, st) || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    return strncmp(path, root, strlen(root)) == 0;
}

static void mark(ino_t ino, off_t start, off_t end) {
    if (dirty_len == dirty_cap) {
        dirty_cap = dirty_cap ? dirty_cap * 2 : 256;
        dirty = realloc(dirty, dirty_cap * sizeof *dirty);
        if (!dirty) abort();
    }
    dirty[dirty_len++] = (struct range){ino, start, end};
}

/* Whether a write of this size still fits on the disk we pretend to have. */
static int fits(size_t count) {
    if (full < 0) return 1;
    pthread_mutex_lock(&lock);
    int ok = written + (long)count <= full;
    if (ok) written += (long)count;
    pthread_mutex_unlock(&lock);
    return ok;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t offset) {
    struct stat st;
    if (!watched(fd, &st)) return real_pwrite(fd, bytes, count, offset);
    if (!fits(count)) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t done = real_pwrite(fd, bytes, count, offset);
    if (done > 0) {
        pthread_mutex_lock(&lock);
        mark(st.st_ino, offset, offset + done);
        pthread_mutex_unlock(&lock);
    }
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    return pwrite64(fd, bytes, count, offset);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    struct stat st;
    if (!watched(fd, &st)) return real_write(fd, bytes, count);
    if (!fits(count)) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t done = real_write(fd, bytes, count);
    if (done > 0) {
        off_t end = lseek(fd, 0, SEEK_CUR);
        pthread_mutex_lock(&lock);
        mark(st.st_ino, end - done, end);
        pthread_mutex_unlock(&lock);
    }
    return done;
}

/* Brings the copy of a file up to date with what was written since its last sync. */
static void keep_file(int fd, const struct stat *st) {
    char path[PATH_MAX], from_path[64];
    static char block[1 << 16];
    snprintf(path, sizeof path, "%s/file-%lu", shadow, (unsigned long)st->st_ino);
    /* The descriptor may be write-only or read-only: read through a new one. */
    snprintf(from_path, sizeof from_path, "/proc/self/fd/%d", fd);
    int from = open(from_path, O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (from < 0 || to < 0) abort();
    size_t kept = 0;
    for (size_t i = 0; i < dirty_len; i++) {
        if (dirty[i].ino != st->st_ino) {
            dirty[kept++] = dirty[i];
            continue;
        }
        for (off_t at = dirty[i].start; at < dirty[i].end;) {
            off_t left = dirty[i].end - at;
            ssize_t got = pread(from, block, left < (off_t)sizeof block ? (size_t)left : sizeof block, at);
            if (got <= 0) break;
            if (real_pwrite(to, block, (size_t)got, at) != got) abort();
            at += got;
        }
    }
    dirty_len = kept;
    struct stat now;
    if (fstat(fd, &now) || ftruncate(to, now.st_size)) abort();
    close(from);
    close(to);
}

/* Notes the names of a directory. */
static void keep_names(int fd, const struct stat *st) {
    char path[PATH_MAX], done[PATH_MAX], from[64];
    snprintf(path, sizeof path, "%s/names-%lu.new", shadow, (unsigned long)st->st_ino);
    snprintf(done, sizeof done, "%s/names-%lu", shadow, (unsigned long)st->st_ino);
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    DIR *dir = opendir(from);
    FILE *out = fopen(path, "w");
    if (!dir || !out) abort();
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            fprintf(out, "%lu %c %s\n", (unsigned long)entry->d_ino, entry->d_type == DT_DIR ? 'd' : 'f', entry->d_name);
    }
    fclose(out);
    closedir(dir);
    if (rename(path, done)) abort();
}

static int sync_fd(int fd, int data_only, int (*real)(int)) {
    struct stat st;
    if (!watched(fd, &st)) return real(fd);
    pthread_mutex_lock(&lock);
    if (data_only && fail_sync >= 0 && ++datasyncs >= fail_sync) broken = 1;
    int failed = broken;
    if (!failed && shadow && !(data_only && ignore_data)) {
        if (S_ISDIR(st.st_mode)) keep_names(fd, &st);
        else keep_file(fd, &st);
    }
    pthread_mutex_unlock(&lock);
    if (failed) errno = EIO;
    return failed ? -1 : 0;
}

int fsync(int fd) { return sync_fd(fd, 0, real_fsync); }
int fdatasync(int fd) { return sync_fd(fd, 1, real_fdatasync); }
