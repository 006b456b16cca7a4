/* reader/page_data.S - the page as it is and as gzip packed it, and its policy;
 * see page.c.  The Makefile makes the other two files from page.html. */
/* SPDX-License-Identifier: BSD-2-Clause */
        .section .rodata
        .global page_html
page_html:
        .incbin "reader/page.html"
        .global page_packed
page_packed:
        .incbin PAGE_PACKED
        .global page_end
page_end:
        .global page_policy
page_policy:
        .incbin PAGE_POLICY
        .byte 0
        .section .note.GNU-stack, "", %progbits
