"""Energy, power and clocks of the GPU in use, read from NVIDIA's management library. For scripts beside this file."""
import ctypes
import os
import statistics
import threading
import time


def gpu_index():
    """The number that the machine gives to the first GPU in use."""
    return int(os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or 0)


class Power:
    """Readings while something runs: `with power: ...`, then joules, seconds, watts, clock_hz of that stretch.

    The counter of energy moves in steps of tens of milliseconds: a stretch should be half a second or more.
    """

    def __init__(self, index=None, period_s=0.02):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self.period_s = period_s
        self.require(self.library.nvmlInit_v2(), "nvmlInit")
        number = gpu_index() if index is None else index
        self.require(self.library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(self.device)), "a handle")

    @staticmethod
    def require(code, what):
        if code != 0:
            raise RuntimeError(f"NVML: {what}: error {code}")

    def energy_j(self):
        millijoules = ctypes.c_ulonglong()
        self.require(self.library.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(millijoules)), "energy")
        return millijoules.value * 1e-3

    def sm_clock_hz(self):
        megahertz, sm_clock = ctypes.c_uint(), 1
        self.require(self.library.nvmlDeviceGetClockInfo(self.device, sm_clock, ctypes.byref(megahertz)), "clock")
        return megahertz.value * 1e6

    def limit_w(self):
        milliwatts = ctypes.c_uint()
        self.require(self.library.nvmlDeviceGetEnforcedPowerLimit(self.device, ctypes.byref(milliwatts)), "limit")
        return milliwatts.value * 1e-3

    def _sample(self):
        while not self._stop.wait(self.period_s):
            self._clocks.append(self.sm_clock_hz())

    def __enter__(self):
        self._clocks, self._stop = [], threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._energy, self._began = self.energy_j(), time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.joules = self.energy_j() - self._energy
        self.seconds = time.perf_counter() - self._began
        self.watts = self.joules / self.seconds
        self.clock_hz = statistics.median(self._clocks) if self._clocks else self.sm_clock_hz()
