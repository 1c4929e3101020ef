#!/bin/sh
# Ansible copies this to the user's temporary directory and root runs it there, as it does with files of later tasks.
exit 0
