/* A PKCS#11 module that passes everything on to the real one (FALAJ_SHIM_MODULE), except where the
 * file FALAJ_SHIM_CONTROL says otherwise, by its first word:
 *   down     C_Encrypt, C_Decrypt and C_GenerateKey answer CKR_DEVICE_ERROR
 *   denied   C_EncryptInit and C_DecryptInit answer CKR_KEY_FUNCTION_NOT_PERMITTED
 *   lost     the next C_FindObjectsInit answers CKR_SESSION_HANDLE_INVALID, once
 *   gate F   C_GenerateKey waits until somebody writes into the FIFO F
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <p11-kit/pkcs11.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CK_FUNCTION_LIST list;
static CK_FUNCTION_LIST* real;

static int control_is(const char* word, char* rest, size_t size) {
  char text[512] = {0};
  const char* path = getenv("FALAJ_SHIM_CONTROL");
  FILE* file = path ? fopen(path, "r") : NULL;
  if (!file) return 0;
  const size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  const size_t length = strlen(word);
  if (strncmp(text, word, length) != 0) return 0;
  if (rest && text[length] == ' ') snprintf(rest, size, "%s", text + length + 1);
  return 1;
}

static CK_RV encrypt_init(CK_SESSION_HANDLE s, CK_MECHANISM* m, CK_OBJECT_HANDLE k) {
  if (control_is("denied", NULL, 0)) return CKR_KEY_FUNCTION_NOT_PERMITTED;
  return real->C_EncryptInit(s, m, k);
}
static CK_RV decrypt_init(CK_SESSION_HANDLE s, CK_MECHANISM* m, CK_OBJECT_HANDLE k) {
  if (control_is("denied", NULL, 0)) return CKR_KEY_FUNCTION_NOT_PERMITTED;
  return real->C_DecryptInit(s, m, k);
}
static CK_RV encrypt(CK_SESSION_HANDLE s, unsigned char* in, unsigned long n, unsigned char* out,
                     unsigned long* m) {
  const CK_RV rv = real->C_Encrypt(s, in, n, out, m);
  return control_is("down", NULL, 0) ? CKR_DEVICE_ERROR : rv;
}
static CK_RV decrypt(CK_SESSION_HANDLE s, unsigned char* in, unsigned long n, unsigned char* out,
                     unsigned long* m) {
  const CK_RV rv = real->C_Decrypt(s, in, n, out, m);
  return control_is("down", NULL, 0) ? CKR_DEVICE_ERROR : rv;
}
static CK_RV generate(CK_SESSION_HANDLE s, CK_MECHANISM* m, CK_ATTRIBUTE* a, unsigned long n,
                      CK_OBJECT_HANDLE* k) {
  char fifo[512];
  if (control_is("down", NULL, 0)) return CKR_DEVICE_ERROR;
  if (control_is("gate", fifo, sizeof fifo)) {
    char byte;
    const int fd = open(fifo, O_RDONLY);
    if (fd < 0 || read(fd, &byte, 1) != 1) return CKR_GENERAL_ERROR;
    close(fd);
  }
  return real->C_GenerateKey(s, m, a, n, k);
}
static CK_RV find_init(CK_SESSION_HANDLE s, CK_ATTRIBUTE* a, unsigned long n) {
  if (control_is("lost", NULL, 0)) {
    unlink(getenv("FALAJ_SHIM_CONTROL"));
    return CKR_SESSION_HANDLE_INVALID;
  }
  return real->C_FindObjectsInit(s, a, n);
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST** out) {
  const char* path = getenv("FALAJ_SHIM_MODULE");
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) return CKR_GENERAL_ERROR;
  CK_C_GetFunctionList get = (CK_C_GetFunctionList)dlsym(library, "C_GetFunctionList");
  if (!get || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
  list = *real;
  list.C_EncryptInit = encrypt_init;
  list.C_DecryptInit = decrypt_init;
  list.C_Encrypt = encrypt;
  list.C_Decrypt = decrypt;
  list.C_GenerateKey = generate;
  list.C_FindObjectsInit = find_init;
  *out = &list;
  return CKR_OK;
}
