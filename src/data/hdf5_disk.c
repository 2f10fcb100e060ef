// hdf5_disk.c - the file driver that hdf5.c writes through: plain reads and writes, except that a
// failed write (a full disk, a size limit) is noted for us and reported to HDF5 as done.
//
// HDF5 1.10 cannot close a file whose last flush failed: the handle stays half open and the library
// crashes when the process ends. Here HDF5 never learns of the failure, closes in good order, and
// hdf5.c finds the note, removes the file and reports the system's own reason.
#define _GNU_SOURCE
#include "data/hdf5_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if H5_VERSION_GE(1, 14, 0)
#include <H5FDdevelop.h>
#endif

#include "core/mem.h"

#define LARGEST ((haddr_t)INT64_MAX)

typedef struct disk {
    H5FD_t pub;  // HDF5's own part, first
    int fd;
    haddr_t allocated, size;  // what HDF5 has laid out, what the file holds
    int* failed;              // the owner's errno, 0 while all is well
} disk;

typedef struct disk_info {  // travels inside the access property list
    int* failed;
} disk_info;

static void note(disk* d, int code) {
    if (!*d->failed) *d->failed = code ? code : EIO;
}

static H5FD_t* disk_open(const char* name, unsigned flags, hid_t access, haddr_t most) {
    (void)most;
    const disk_info* info = H5Pget_driver_info(access);
    if (!info) return NULL;
    int mode = O_CLOEXEC | (flags & H5F_ACC_RDWR ? O_RDWR : O_RDONLY) |
               (flags & H5F_ACC_TRUNC ? O_TRUNC : 0) | (flags & H5F_ACC_CREAT ? O_CREAT : 0) |
               (flags & H5F_ACC_EXCL ? O_EXCL : 0);
    int fd = open(name, mode, 0666);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    disk* d = size < 0 ? NULL : mem_calloc(1, sizeof *d);
    if (!d) {
        *info->failed = fd < 0 || size < 0 ? errno : ENOMEM;
        if (fd >= 0) close(fd);
        return NULL;
    }
    d->fd = fd;
    d->size = (haddr_t)size;
    d->failed = info->failed;
    return &d->pub;
}

static herr_t disk_close(H5FD_t* file) {
    disk* d = (disk*)file;
    if (close(d->fd) != 0) note(d, errno);
    mem_free(d);
    return 0;
}

static herr_t disk_query(const H5FD_t* file, unsigned long* flags) {
    (void)file;  // the same layout decisions as HDF5's standard driver
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t disk_get_eoa(const H5FD_t* file, H5FD_mem_t type) {
    (void)type;
    return ((const disk*)file)->allocated;
}

static herr_t disk_set_eoa(H5FD_t* file, H5FD_mem_t type, haddr_t to) {
    (void)type;
    ((disk*)file)->allocated = to;
    return 0;
}

static haddr_t disk_get_eof(const H5FD_t* file, H5FD_mem_t type) {
    (void)type;
    return ((const disk*)file)->size;
}

static herr_t disk_read(H5FD_t* file, H5FD_mem_t type, hid_t plist, haddr_t from, size_t bytes,
                        void* out) {
    (void)type, (void)plist;
    disk* d = (disk*)file;
    char* to = out;
    while (bytes) {
        ssize_t n = pread(d->fd, to, bytes, (off_t)from);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) {  // beyond the end: zeros, as HDF5 expects
            memset(to, 0, bytes);
            return 0;
        }
        to += n;
        from += (haddr_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

static herr_t disk_write(H5FD_t* file, H5FD_mem_t type, hid_t plist, haddr_t at, size_t bytes,
                         const void* data) {
    (void)type, (void)plist;
    disk* d = (disk*)file;
    const char* from = data;
    if (at + bytes > d->size) d->size = at + bytes;
    while (bytes && !*d->failed) {
        ssize_t n = pwrite(d->fd, from, bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            note(d, n < 0 ? errno : ENOSPC);
        else {
            from += n;
            at += (haddr_t)n;
            bytes -= (size_t)n;
        }
    }
    return 0;
}

static herr_t disk_truncate(H5FD_t* file, hid_t plist, hbool_t closing) {
    (void)plist, (void)closing;
    disk* d = (disk*)file;
    if (d->size != d->allocated && !*d->failed && ftruncate(d->fd, (off_t)d->allocated) != 0)
        note(d, errno);
    d->size = d->allocated;
    return 0;
}

static const H5FD_class_t driver = {
#if H5_VERSION_GE(1, 14, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)510,  // in the range for drivers of one's own
#endif
    .name = "firm_disk",
    .maxaddr = LARGEST,
    .fc_degree = H5F_CLOSE_WEAK,
    .fapl_size = sizeof(disk_info),
    .open = disk_open,
    .close = disk_close,
    .query = disk_query,
    .get_eoa = disk_get_eoa,
    .set_eoa = disk_set_eoa,
    .get_eof = disk_get_eof,
    .read = disk_read,
    .write = disk_write,
    .truncate = disk_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

hid_t hdf5_disk_create(const char* path, int* failed) {
    hid_t id = H5FDregister(&driver), access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
    disk_info info = {failed};
    if (id >= 0 && access >= 0 && H5Pset_driver(access, id, &info) >= 0)
        file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (access >= 0) H5Pclose(access);
    if (id >= 0) H5FDunregister(id);  // the open file keeps its own hold on the driver
    return file;
}
