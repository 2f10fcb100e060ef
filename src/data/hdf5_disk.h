// hdf5_disk.h - creating HDF5 files that can always be closed; see hdf5_disk.c.
#ifndef DATA_HDF5_DISK_H
#define DATA_HDF5_DISK_H

#include <hdf5.h>

// Creates a file, or empties the one that is there. *failed stays 0 or becomes the errno of the first write that
// failed; it must outlive the file. Negative when the file cannot be created.
hid_t hdf5_disk_create(const char* path, int* failed);

#endif
