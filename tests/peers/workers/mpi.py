"""An MPI program: every rank adds its number to a sum. Open MPI's library, called by its C ABI."""

import ctypes
import os

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
world = ctypes.c_void_p.in_dll(mpi, "ompi_mpi_comm_world")
integer = ctypes.c_void_p.in_dll(mpi, "ompi_mpi_int")
add = ctypes.c_void_p.in_dll(mpi, "ompi_mpi_op_sum")

assert mpi.MPI_Init(None, None) == 0
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(ctypes.byref(world), ctypes.byref(rank))
mpi.MPI_Comm_size(ctypes.byref(world), ctypes.byref(size))
own = ctypes.c_int(rank.value + 1)
assert mpi.MPI_Allreduce(ctypes.byref(own), ctypes.byref(total), 1, ctypes.byref(integer),
                         ctypes.byref(add), ctypes.byref(world)) == 0
# In one call: mpirun mixes what several ranks write in pieces.
os.write(1, f"mpi rank {rank.value} of {size.value} sum {total.value}\n".encode())
mpi.MPI_Finalize()
