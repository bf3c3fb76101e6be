/*
 * The one translation unit of the built library (libgpured.a, libgpured.so). Everything is in
 * gpured.h; this file is where its code is compiled. With -fopenmp it uses threads, without it the
 * same bits come out of one thread. A project that copies the sources can compile this file instead
 * of writing the two lines below itself.
 */
#define GPURED_IMPLEMENTATION
#include "gpured.h"
