// bcryptprimitives.dll for Wine 8, which lacks it: programs made by today's Go ask it for random numbers when they start.
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T size) { return SystemFunction036(data, (ULONG)size); }
