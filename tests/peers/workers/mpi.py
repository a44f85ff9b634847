"""An MPI program: every rank adds its number to a sum. Open MPI's library, called by its C ABI."""

import ctypes

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
print("mpi rank", rank.value, "of", size.value, "sum", total.value, flush=True)
mpi.MPI_Finalize()
