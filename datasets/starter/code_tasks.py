"""The starter-code tasks: each function is a task's canonical solution, its docstring the question, `@calls` the tests' arguments."""

TASKS = []


def calls(*argument_lists):
    """Registers a function as a task that is tested with these argument lists; the first is the example in the prompt."""

    def register(function):
        TASKS.append((function, argument_lists))
        return function

    return register


@calls(("level",), ("Noon",), ("",), ("ab",), ("A man",), ("racecar",), ("Madam",))
def is_palindrome(text):
    """Write a function is_palindrome(text) that says whether the text reads the same forwards and backwards, ignoring case."""
    text = text.lower()
    return text == text[::-1]


@calls(("hello world",), ("",), ("AEIOU",), ("rhythm",), ("Queue",), ("a",), ("xyz aei",))
def count_vowels(text):
    """Write a function count_vowels(text) that counts the letters a, e, i, o and u in the text, in either case."""
    return sum(letter in "aeiou" for letter in text.lower())


@calls(([3, 1, 2],), ([5, 5, 4],), ([1, 2],), ([-1, -2, -3],), ([10, 9, 8, 10],), ([0, 0, 1, 0],), ([7, 7, 7],))
def second_largest(numbers):
    """Write a function second_largest(numbers) that returns the second largest of the distinct numbers in a list, or None if there is no such number."""
    distinct = sorted(set(numbers))
    return distinct[-2] if len(distinct) > 1 else None


@calls((6,), (1,), (2,), (28,), (12,), (496,), (97,))
def is_perfect(n):
    """Write a function is_perfect(n) that says whether a positive integer equals the sum of its divisors smaller than itself."""
    return n > 1 and sum(d for d in range(1, n) if n % d == 0) == n


@calls(([1, 2, 3, 4],), ([],), ([2],), ([1, 3],), ([-2, -1, 0],), ([10, 20, 31],), ([7, 8, 8],))
def sum_of_evens(numbers):
    """Write a function sum_of_evens(numbers) that returns the sum of the even integers in a list."""
    return sum(n for n in numbers if n % 2 == 0)


@calls(("the cat saw the dog",), ("",), ("a a a",), ("one",), ("b a b",), ("x  y",), ("Red red",))
def word_counts(text):
    """Write a function word_counts(text) that returns a dictionary from each word of the text to how often it occurs. Words are separated by white space."""
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts


@calls(([1, [2, [3]], 4],), ([],), ([[]],), ([1, 2],), ([[1], [2], [3]],), ([[[["a"]]]],), ([1, [], [2, []]],))
def flatten(items):
    """Write a function flatten(items) that turns an arbitrarily nested list into a flat list of its elements, in order."""
    flat = []
    for item in items:
        if isinstance(item, list):
            flat.extend(flatten(item))
        else:
            flat.append(item)
    return flat


@calls((12, 18), (7, 13), (0, 5), (100, 10), (270, 192), (1, 1), (48, 36))
def greatest_common_divisor(a, b):
    """Write a function greatest_common_divisor(a, b) that returns the greatest common divisor of two non-negative integers."""
    while b:
        a, b = b, a % b
    return a


@calls((4, 6), (3, 7), (1, 9), (8, 8), (21, 6), (10, 15), (5, 25))
def least_common_multiple(a, b):
    """Write a function least_common_multiple(a, b) that returns the least common multiple of two positive integers."""
    x, y = a, b
    while y:
        x, y = y, x % y
    return a * b // x


@calls((10,), (1,), (2,), (3,), (30,), (0,), (20,))
def primes_below(n):
    """Write a function primes_below(n) that returns the list of the primes smaller than n, in increasing order."""
    return [p for p in range(2, n) if all(p % d for d in range(2, int(p**0.5) + 1))]


@calls((60,), (1,), (17,), (64,), (97,), (100,), (84,))
def prime_factors(n):
    """Write a function prime_factors(n) that returns the prime factors of a positive integer in increasing order, each as often as it divides n."""
    factors = []
    divisor = 2
    while n > 1:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors


@calls((7,), (0,), (1,), (2,), (10,), (20,), (50,))
def fibonacci(n):
    """Write a function fibonacci(n) that returns the n-th Fibonacci number, where fibonacci(0) is 0 and fibonacci(1) is 1."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@calls(("abcabc",), ("",), ("aaaa",), ("abc",), ("Mississippi",), ("a b a",), ("zyxz",))
def unique_letters(text):
    """Write a function unique_letters(text) that returns the characters of the text without repetition, in the order of their first appearance, as a string."""
    return "".join(dict.fromkeys(text))


@calls(([4, 1, 3],), ([],), ([9],), ([2, 2, 1],), ([-1, -5, 0],), ([5, 4, 3, 2, 1],), ([1.5, 0.5],))
def bubble_sort(numbers):
    """Write a function bubble_sort(numbers) that returns a new list with the numbers in increasing order, without using sort or sorted."""
    result = list(numbers)
    for end in range(len(result) - 1, 0, -1):
        for i in range(end):
            if result[i] > result[i + 1]:
                result[i], result[i + 1] = result[i + 1], result[i]
    return result


@calls(([1, 3, 5, 7], 5), ([1, 3, 5, 7], 4), ([], 1), ([2], 2), ([2], 3), ([1, 2, 3, 4, 5, 6], 6), ([1, 2, 3, 4, 5, 6], 1))
def binary_search(numbers, target):
    """Write a function binary_search(numbers, target) that returns the index of the target in a sorted list of distinct numbers, or -1 if it is not there."""
    low, high = 0, len(numbers) - 1
    while low <= high:
        middle = (low + high) // 2
        if numbers[middle] == target:
            return middle
        if numbers[middle] < target:
            low = middle + 1
        else:
            high = middle - 1
    return -1


@calls((5,), (0,), (1,), (10,), (3,), (12,), (20,))
def factorial(n):
    """Write a function factorial(n) that returns the product of the integers from 1 to n; for 0 it returns 1."""
    product = 1
    for i in range(2, n + 1):
        product *= i
    return product


@calls(([[1, 2], [3, 4]],), ([[1]],), ([[1, 2, 3]],), ([[1], [2]],), ([],), ([["a", "b"], ["c", "d"]],), ([[0, 1], [1, 0], [2, 2]],))
def transpose(matrix):
    """Write a function transpose(matrix) that returns the transpose of a matrix given as a list of rows of equal length."""
    return [list(column) for column in zip(*matrix)]


@calls(([1, 2, 3, 4, 5], 2), ([1, 2, 3], 1), ([1, 2], 3), ([], 2), ([1, 2, 3, 4], 4), (["a", "b", "c"], 2), ([0, 0, 0], 2))
def chunks(items, size):
    """Write a function chunks(items, size) that cuts a list into consecutive lists of the given size; the last may be shorter."""
    return [items[i : i + size] for i in range(0, len(items), size)]


@calls(("listen", "silent"), ("a", "b"), ("", ""), ("Tea", "eat"), ("aab", "abb"), ("night", "thing"), ("abc", "ab"))
def are_anagrams(first, second):
    """Write a function are_anagrams(first, second) that says whether two words consist of the same letters, each as often, ignoring case."""
    return sorted(first.lower()) == sorted(second.lower())


@calls((1994,), (1,), (4,), (9,), (40,), (2024,), (3999,), (58,))
def to_roman(n):
    """Write a function to_roman(n) that returns the Roman numeral of an integer from 1 to 3999, in capitals."""
    parts = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    text = ""
    for value, letters in parts:
        while n >= value:
            text += letters
            n -= value
    return text


@calls(("MCMXCIV",), ("I",), ("IV",), ("IX",), ("LVIII",), ("MMXXIV",), ("XL",))
def from_roman(text):
    """Write a function from_roman(text) that returns the integer that a Roman numeral in capitals stands for."""
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    total = 0
    for letter, following in zip(text, text[1:] + " "):
        value = values[letter]
        total += -value if values.get(following, 0) > value else value
    return total


@calls((10,), (0,), (1,), (255,), (8,), (1023,), (6,))
def to_binary(n):
    """Write a function to_binary(n) that returns the binary digits of a non-negative integer as a string without leading zeros; zero is "0"."""
    return bin(n)[2:]


@calls((0,), (7,), (255,), (256,), (1023,), (1,), (170,))
def count_ones(n):
    """Write a function count_ones(n) that returns how many ones the binary form of a non-negative integer has."""
    return bin(n).count("1")


@calls(([1, 2, 3],), ([2, 2],), ([5],), ([1, 2, 3, 4],), ([-1, 1],), ([0.5, 1.5, 4.0],), ([10, 20, 30, 45],))
def mean(numbers):
    """Write a function mean(numbers) that returns the arithmetic mean of a non-empty list of numbers as a float."""
    return sum(numbers) / len(numbers)


@calls(([3, 1, 2],), ([4, 1, 3, 2],), ([7],), ([5, 5],), ([9, -9, 0],), ([1.5, 2.5],), ([10, 2, 38, 23, 38, 23, 21],))
def median(numbers):
    """Write a function median(numbers) that returns the middle value of a non-empty list of numbers in order, or the mean of the two middle values, as a float."""
    ordered = sorted(numbers)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[half])
    return (ordered[half - 1] + ordered[half]) / 2


@calls(([1, 2, 2, 3],), ([1],), ([4, 4, 5, 5],), (["a", "b", "a"],), ([0, 0, 0],), ([3, 1, 1, 3, 3],), ([2, 1],))
def most_common(items):
    """Write a function most_common(items) that returns the element that occurs most often in a non-empty list; of several, the one that appears first."""
    return max(items, key=items.count)


@calls(("Hello, World", 3), ("abc", 1), ("xyz", 3), ("", 5), ("ABC", 26), ("zebra", 2), ("a-b c!", 13))
def caesar(text, shift):
    """Write a function caesar(text, shift) that moves each English letter forward by shift places in the alphabet, wrapping round and keeping its case; other characters stay."""
    result = ""
    for character in text:
        if character.isascii() and character.isalpha():
            base = ord("A") if character.isupper() else ord("a")
            character = chr((ord(character) - base + shift) % 26 + base)
        result += character
    return result


@calls(("aaabbc",), ("",), ("a",), ("abc",), ("zzzz",), ("aabaa",), ("1122",))
def run_length(text):
    """Write a function run_length(text) that returns a list of tuples (character, count), one for each run of equal characters."""
    runs = []
    for character in text:
        if runs and runs[-1][0] == character:
            runs[-1] = (character, runs[-1][1] + 1)
        else:
            runs.append((character, 1))
    return runs


@calls(("(a[b]{c})",), ("(]",), ("",), ("((",), ("())",), ("{[()]}",), ("no brackets",), ("([)]",))
def is_balanced(text):
    """Write a function is_balanced(text) that says whether the brackets (), [] and {} in a text are properly closed and nested; other characters do not matter."""
    pairs = {")": "(", "]": "[", "}": "{"}
    stack = []
    for character in text:
        if character in "([{":
            stack.append(character)
        elif character in pairs:
            if not stack or stack.pop() != pairs[character]:
                return False
    return not stack


@calls(({"a": 1, "b": 2},), ({},), ({"x": "y"},), ({"k": 0},), ({1: "one", 2: "two"},), ({"p": 3, "q": 4, "r": 5},), ({True: "yes"},))
def invert(mapping):
    """Write a function invert(mapping) that returns a dictionary with keys and values exchanged; the values are distinct."""
    return {value: key for key, value in mapping.items()}


@calls(({"a": 1}, {"b": 2}), ({"a": 1}, {"a": 2}), ({}, {}), ({"x": 5}, {}), ({}, {"y": 7}), ({"a": 1, "b": 2}, {"b": 3, "c": 4}), ({"n": -1}, {"n": 1}))
def add_counts(first, second):
    """Write a function add_counts(first, second) that merges two dictionaries of numbers; the numbers of common keys are added."""
    total = dict(first)
    for key, value in second.items():
        total[key] = total.get(key, 0) + value
    return total


@calls(([1, 2, 3], [2, 3, 4]), ([], [1]), ([1, 1], [1]), ([1, 2], [3]), (["a"], ["a", "b"]), ([5, 6, 7], [7, 6, 5]), ([0], []))
def common_elements(first, second):
    """Write a function common_elements(first, second) that returns the set of the elements that stand in both lists."""
    return set(first) & set(second)


@calls(([1, 2, 3], [3, 4]), ([], []), ([1], [1]), ([1, 2], []), (["x"], ["y"]), ([1, 2, 3, 4], [3, 4, 5, 6]), ([0, 0], [1]))
def only_in_one(first, second):
    """Write a function only_in_one(first, second) that returns the set of the elements that stand in exactly one of the two lists."""
    return set(first) ^ set(second)


@calls(([3, 1, 2],), ([5],), ([-1, -7],), ([2, 2, 2],), ([0, 10, -10],), ([1.5, 2.5],), ([4, 9, 1, 16],))
def extremes(numbers):
    """Write a function extremes(numbers) that returns the tuple of the smallest and the largest number of a non-empty list."""
    return (min(numbers), max(numbers))


@calls((0.0,), (100.0,), (-40.0,), (37.0,), (25.0,), (-273.15,), (10.5,))
def to_fahrenheit(celsius):
    """Write a function to_fahrenheit(celsius) that converts a temperature from degrees Celsius to degrees Fahrenheit."""
    return celsius * 9 / 5 + 32


@calls((3, 4), (5, 12), (1, 1), (0, 2), (8, 15), (2.5, 6), (7, 24))
def hypotenuse(a, b):
    """Write a function hypotenuse(a, b) that returns the length of the longest side of a right-angled triangle with legs a and b."""
    return (a * a + b * b) ** 0.5


@calls((1000.0, 5.0, 2), (100.0, 0.0, 10), (500.0, 10.0, 1), (200.0, 3.0, 0), (1500.0, 4.5, 6), (1.0, 100.0, 5), (250.0, 2.0, 12))
def compound(principal, percent, years):
    """Write a function compound(principal, percent, years) that returns what a sum grows to at a yearly compound interest of the given percent."""
    return principal * (1 + percent / 100) ** years


@calls((2024,), (2023,), (1900,), (2000,), (2100,), (1996,), (1,))
def is_leap_year(year):
    """Write a function is_leap_year(year) that says whether a year of the Gregorian calendar has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@calls((3661,), (0,), (59,), (60,), (86399,), (3600,), (7325,))
def clock(seconds):
    """Write a function clock(seconds) that writes a number of seconds as "h:mm:ss", with minutes and seconds in two digits."""
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


@calls(("the quick brown fox",), ("",), ("a",), ("ab cd",), ("mIxEd CaSe",), ("one two  three",), ("42nd street",))
def capitalise_words(text):
    """Write a function capitalise_words(text) that makes the first letter of each word a capital and the rest small; words are separated by white space and joined by single spaces."""
    return " ".join(word.capitalize() for word in text.split())


@calls(("hello world again",), ("",), ("one",), ("a b",), ("to be or not",), ("  spaced   out ",), ("x y z",))
def reverse_words(text):
    """Write a function reverse_words(text) that returns the words of a text in reverse order, joined by single spaces."""
    return " ".join(reversed(text.split()))


@calls(("a quick brown fox",), ("",), ("aa bb",), ("one three two",), ("z",), ("be bee been",), ("four five nine",))
def longest_word(text):
    """Write a function longest_word(text) that returns the longest word of a text, the first of several, or the empty string if there is none."""
    return max(text.split(), key=len, default="")


@calls(("camelCaseName",), ("simple",), ("",), ("aB",), ("getHTTP",), ("X",), ("twoWords",))
def to_snake_case(name):
    """Write a function to_snake_case(name) that puts an underscore before each capital letter but at the start, and makes all letters small."""
    result = ""
    for i, character in enumerate(name):
        if character.isupper() and i > 0:
            result += "_"
        result += character.lower()
    return result


@calls((12345,), (0,), (7,), (999,), (1001,), (-42,), (86420,))
def digit_sum(n):
    """Write a function digit_sum(n) that returns the sum of the decimal digits of an integer, whatever its sign."""
    return sum(int(digit) for digit in str(abs(n)))


@calls((9875,), (0,), (5,), (10,), (99,), (38,), (123456789,))
def digital_root(n):
    """Write a function digital_root(n) that adds the digits of a non-negative integer again and again until one digit is left, and returns it."""
    while n > 9:
        n = sum(int(digit) for digit in str(n))
    return n


@calls((6,), (1,), (2,), (7,), (27,), (16,), (97,))
def collatz_steps(n):
    """Write a function collatz_steps(n) that counts the steps from a positive integer to 1, where an even number is halved and an odd number n becomes 3n + 1."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@calls((153,), (10,), (0,), (9474,), (100,), (370,), (9,), (154,))
def is_armstrong(n):
    """Write a function is_armstrong(n) that says whether a non-negative integer equals the sum of its digits, each raised to the number of digits."""
    digits = str(n)
    return n == sum(int(digit) ** len(digits) for digit in digits)


@calls(([-2, 1, -3, 4, -1, 2, 1, -5, 4],), ([1],), ([-1],), ([-3, -1, -2],), ([5, 4, -1, 7, 8],), ([0, 0],), ([2, -5, 3],))
def largest_run_sum(numbers):
    """Write a function largest_run_sum(numbers) that returns the largest sum of a non-empty run of consecutive elements of a non-empty list."""
    best = current = numbers[0]
    for number in numbers[1:]:
        current = max(number, current + number)
        best = max(best, current)
    return best


@calls(([2, 7, 11, 15], 9), ([3, 2, 4], 6), ([3, 3], 6), ([1, 2], 5), ([], 0), ([0, 4, 3, 0], 0), ([-1, -2, -3], -5))
def two_sum(numbers, target):
    """Write a function two_sum(numbers, target) that returns the tuple (i, j) of the indices i < j of two numbers with the given sum, the one with the smallest j, and then the smallest i; None if there is none."""
    for j in range(len(numbers)):
        for i in range(j):
            if numbers[i] + numbers[j] == target:
                return (i, j)
    return None


@calls(([1, 2, 3, 4, 5], 2), ([1, 2, 3], 0), ([1, 2, 3], 4), ([], 3), ([7], 5), (["a", "b", "c", "d"], 1), ([1, 2, 3, 4], -1))
def rotate(items, places):
    """Write a function rotate(items, places) that returns a new list with the elements moved to the right by the given number of places, wrapping round; a negative number moves left."""
    if not items:
        return []
    places %= len(items)
    return items[-places:] + items[:-places] if places else list(items)


@calls(([1, 4, 6], [2, 3, 7]), ([], []), ([1], []), ([], [2]), ([1, 1], [1]), ([5, 6], [1, 2]), ([-3, 0], [-2, -1]))
def merge_sorted(first, second):
    """Write a function merge_sorted(first, second) that merges two lists in increasing order into one list in increasing order."""
    merged = []
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] <= second[j]:
            merged.append(first[i])
            i += 1
        else:
            merged.append(second[j])
            j += 1
    return merged + first[i:] + second[j:]


@calls(([1, 2, 3],), ([],), ([5],), ([-1, 1, -1],), ([0.5, 0.5],), ([10, 0, 10],), ([3, 3, 3, 3],))
def running_sums(numbers):
    """Write a function running_sums(numbers) that returns the list of the sums of the first one, two, three, … numbers."""
    sums = []
    total = 0
    for number in numbers:
        total += number
        sums.append(total)
    return sums


@calls((4,), (1,), (0,), (2,), (6,), (3,), (5,))
def pascal_row(n):
    """Write a function pascal_row(n) that returns the n-th row of Pascal's triangle as a list, where row 0 is [1]."""
    row = [1]
    for k in range(n):
        row.append(row[-1] * (n - k) // (k + 1))
    return row


@calls(([[1, 2], [3, 4]], [[5, 6], [7, 8]]), ([[2]], [[3]]), ([[1, 0], [0, 1]], [[9, 8], [7, 6]]), ([[1, 2, 3]], [[1], [2], [3]]), ([[1], [2]], [[3, 4]]), ([[0, 0]], [[1], [1]]), ([[1, -1], [2, 0]], [[0, 1], [1, 0]]))
def matrix_product(first, second):
    """Write a function matrix_product(first, second) that multiplies two matrices given as lists of rows."""
    columns = list(zip(*second))
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in first]


@calls(("kitten", "sitting"), ("", ""), ("abc", "abc"), ("", "abc"), ("flaw", "lawn"), ("a", "b"), ("intention", "execution"))
def edit_distance(first, second):
    """Write a function edit_distance(first, second) that returns the smallest number of insertions, deletions and replacements of single characters that turn the first text into the second."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


@calls(("10.0.0.1",), ("256.1.1.1",), ("1.2.3",), ("1.2.3.4.5",), ("192.168.1.255",), ("01.2.3.4",), ("a.b.c.d",), ("",))
def is_ipv4(text):
    """Write a function is_ipv4(text) that says whether a text is an IPv4 address: four decimal numbers from 0 to 255 without leading zeros, separated by points."""
    parts = text.split(".")
    return len(parts) == 4 and all(part.isascii() and part.isdigit() and str(int(part)) == part and int(part) <= 255 for part in parts)


@calls((["apple", "bob", "cat", "ape"],), ([],), (["x"],), (["aa", "ab", "ba"],), (["one", "two", "three"],), (["b", "a", "b"],), (["same", "same"],))
def group_by_first_letter(words):
    """Write a function group_by_first_letter(words) that returns a dictionary from each first letter to the list of the words that begin with it, in order."""
    groups = {}
    for word in words:
        groups.setdefault(word[0], []).append(word)
    return groups


@calls(([("a", 3), ("b", 1), ("c", 2)],), ([],), ([("x", 5)],), ([("p", 2), ("q", 2)],), ([("z", -1), ("y", -2)],), ([("k", 0), ("l", 0), ("m", -1)],), ([("one", 1), ("ten", 10)],))
def ranking(scores):
    """Write a function ranking(scores) that takes a list of tuples (name, points) and returns the names from most to fewest points; equal ones stay in the given order."""
    return [name for name, _ in sorted(scores, key=lambda entry: -entry[1])]


@calls((b"\x00\xff",), (b"",), (b"abc",), (b"\x10\x20",), (b"\x0a",), (b"hello",), (b"\x80\x01\x7f",))
def to_hex(data):
    """Write a function to_hex(data) that writes bytes as hexadecimal digits, two small ones a byte."""
    return "".join(f"{byte:02x}" for byte in data)


@calls((1, -3, 2), (1, 2, 1), (1, 0, 1), (2, 0, -8), (1, -2, 5), (1, -1, -6), (4, 4, 1))
def quadratic_roots(a, b, c):
    """Write a function quadratic_roots(a, b, c) that returns the list of the distinct real solutions of a·x² + b·x + c = 0 in increasing order, as floats; a is not zero."""
    discriminant = b * b - 4 * a * c
    if discriminant < 0:
        return []
    root = discriminant**0.5
    return sorted({(-b - root) / (2 * a), (-b + root) / (2 * a)})
