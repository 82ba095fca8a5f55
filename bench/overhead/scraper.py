#!/usr/bin/python3
"""Asks an exporter on this machine ten times a second, over one connection: scraper.py PORT"""
import http.client
import sys
import time

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
while True:
    begun = time.monotonic()
    connection.request("GET", "/metrics")
    connection.getresponse().read()
    time.sleep(max(0.0, 0.1 - (time.monotonic() - begun)))
