#!/bin/sh
# Makes every certificate and key here anew, good for a hundred years. None of them is of any use outside these tests.
set -eu
cd "$(dirname "$0")"
rm -f ./*.pem

# $1: name, $2: its issuer's name, $3: extensions
sign() {
    openssl req -new -key "$1.key.pem" -subj "/CN=$1" |
        openssl x509 -req -CA "$2.pem" -CAkey "$2.key.pem" -days 36500 -set_serial "0x$(openssl rand -hex 8)" \
            -extfile /dev/fd/3 -out "$1.pem" 3<<EXT
$3
EXT
}
ec() { openssl genpkey -algorithm EC -pkeyopt "ec_paramgen_curve:$1"; }

for ca in ca other-ca; do
    ec P-256 >$ca.key.pem
    openssl req -x509 -new -key $ca.key.pem -subj "/CN=$ca" -days 36500 -out $ca.pem \
        -addext keyUsage=keyCertSign,cRLSign
done

# The server: its names are those that the tests dial.
ec P-256 >server.key.pem
sign server ca "subjectAltName=DNS:localhost,DNS:api.example,IP:127.0.0.1,IP:::1
extendedKeyUsage=serverAuth
basicConstraints=CA:FALSE"

# A server that vouches for itself.
ec P-256 >self-signed.key.pem
openssl req -x509 -new -key self-signed.key.pem -subj "/CN=self-signed" -days 36500 -out self-signed.pem \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE

# Clients: one for each kind of key and each way to write it down.
client="extendedKeyUsage=clientAuth
basicConstraints=CA:FALSE"
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 >rsa-pkcs8.key.pem
openssl rsa -in rsa-pkcs8.key.pem -traditional >rsa-pkcs1.key.pem
ec P-256 >ec-pkcs8.key.pem
openssl ec -in ec-pkcs8.key.pem >ec-sec1.key.pem
openssl genpkey -algorithm ED25519 >ed25519.key.pem
ec P-521 >p521.key.pem
for name in rsa-pkcs8 rsa-pkcs1 ec-pkcs8 ec-sec1 ed25519 p521; do
    sign $name ca "$client"
done

rm ca.key.pem other-ca.key.pem
